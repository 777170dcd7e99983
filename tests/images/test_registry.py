"""Images by digest, against a real registry on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import TOP, Checkout

pytestmark = pytest.mark.docker

SCRIPT = str(TOP / "scripts" / "loopback-registry")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.environ.get("DOCKER_HOST", "unix://").partition("://")[0] != "unix":
        pytest.skip("the engine is elsewhere and does not see this machine's loopback")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    state = tmp_path_factory.mktemp("registry") / "state"
    env = os.environ | {"TRACE_BENCH_REGISTRY_PORT": str(port), "TRACE_BENCH_REGISTRY_STATE": str(state)}
    done = subprocess.run([SCRIPT, "start"], env=env, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    yield f"127.0.0.1:{port}"
    subprocess.run([SCRIPT, "stop"], env=env, check=True, capture_output=True)
    assert not state.exists()


def small_image(engine: Any, folder: Path, labels: dict[str, str]) -> Any:
    """An image of one file."""
    (folder / "small").mkdir()
    (folder / "small" / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    image, _ = engine.images.build(path=str(folder / "small"), labels=labels, rm=True)
    return image


def test_an_image_of_labels_alone_is_pushed_and_pulled_again(
    registry: str, built: tuple[Checkout, dict[str, Any]], engine: Any, tmp_path: Path, remove_later: Any
) -> None:
    """As the next test without the files of the image, which take long to compress."""
    original, pin = built
    small = small_image(engine, tmp_path, engine.images.get(pin["ref"]).labels)
    tag = f"trace-bench/core:test-{uuid.uuid4().hex[:12]}"
    small.tag(tag)
    remove_later(tag)
    shutil.copytree(original.home, tmp_path / "home")
    lock = tmp_path / "home" / "images.lock.json"
    lock.write_text(lock.read_text().replace(pin["ref"], tag).replace(pin["image_id"], small.id))
    checkout = Checkout(original.folder, tmp_path / "home")

    pushed = checkout.call("registry.push", "core", registry)
    assert pushed["ref"] == pushed["repo_digest"], pushed
    assert pushed["ref"].startswith(f"{registry}/trace-bench/core@sha256:") and pushed["key"] == pin["key"]
    remove_later(f"{registry}/trace-bench/core:{pin['key'][:12]}")
    assert checkout.call("pins.ensure", "core", allow_build=False)["ref"] == pushed["ref"]
    stranger = Checkout(original.folder, tmp_path / "elsewhere")
    pulled = stranger.call("registry.pull", pushed["ref"])
    assert (pulled["key"], pulled["parts"]) == (pushed["ref"].rpartition("@")[2], pushed["parts"])
    assert stranger.call("pins.ensure", "core", allow_build=False)["key"] == pulled["key"]


@pytest.mark.slow
def test_pushed_image_runs_by_digest_and_is_pulled_again(
    registry: str,
    built: tuple[Checkout, dict[str, Any]],
    engine: Any,
    tmp_path: Path,
    remove_later: Callable[[str], None],
) -> None:
    original, pin = built
    checkout = Checkout(original.folder, tmp_path / "home")
    assert checkout.call("build.build", "core")["key"] == pin["key"]

    pushed = checkout.call("registry.push", "core", registry)
    assert pushed["ref"] == pushed["repo_digest"]
    assert pushed["ref"].startswith(f"{registry}/trace-bench/core@sha256:")
    assert pushed["key"] == pin["key"]
    remove_later(f"{registry}/trace-bench/core:{pin['key'][:12]}")
    assert checkout.call("pins.ensure", "core", allow_build=False)["ref"] == pushed["ref"]
    assert checkout.call("build.build", "core")["ref"] == pushed["ref"]
    output = engine.containers.run(pushed["ref"], ["python3", "-I", "-c", "import trace_bench; print('by digest')"],
                                   remove=True, network_mode="none")  # fmt: skip
    assert output == b"by digest\n"

    stranger = Checkout(original.folder, tmp_path / "elsewhere")
    pulled = stranger.call("registry.pull", pushed["ref"])
    assert pulled["key"] == pushed["ref"].rpartition("@")[2]
    assert (pulled["family"], pulled["parts"]) == ("core", pushed["parts"])
    assert stranger.call("pins.ensure", "core", allow_build=False)["key"] == pulled["key"]
    assert stranger.call("pins.verify", "core")["ref"] == pushed["ref"]


@pytest.mark.slow
def test_a_family_with_a_layer_is_pushed_and_pulled(
    registry: str, built: tuple[Checkout, dict[str, Any]], tmp_path: Path, remove_later: Callable[[str], None]
) -> None:
    checkout = Checkout(built[0].folder, tmp_path / "home")
    pin = checkout.call("build.build", "core+gepa")
    remove_later(pin["ref"])
    pushed = checkout.call("registry.push", "core+gepa", registry)
    assert pushed["ref"].startswith(f"{registry}/trace-bench/core__gepa@sha256:"), pushed
    remove_later(f"{registry}/trace-bench/core__gepa:{pin['key'][:12]}")
    stranger = Checkout(built[0].folder, tmp_path / "elsewhere")
    pulled = stranger.call("registry.pull", pushed["ref"])
    assert (pulled["family"], pulled["key"]) == ("core+gepa", pushed["ref"].rpartition("@")[2])
    assert stranger.call("pins.ensure", "core+gepa", allow_build=False)["ref"] == pushed["ref"]


def test_a_tag_is_not_pulled(checkout: Checkout) -> None:
    said = checkout.call("registry.pull", "127.0.0.1:1/trace-bench/core:latest")
    assert said["exit_code"] == 2 and "names no digest" in said["error"]


@pytest.mark.parametrize("name", ["http://host:5000", "host:5000/x:tag", "", "-x", "a b"])
def test_what_is_no_registry_is_refused(checkout: Checkout, name: str) -> None:
    said = checkout.call("registry.push", "core", name)
    assert said["exit_code"] == 2 and "is not a registry" in said["error"]


def test_a_foreign_image_is_not_locked(
    registry: str, engine: Any, checkout: Checkout, tmp_path: Path, remove_later: Any
) -> None:
    small_image(engine, tmp_path, {"made.by": "another project"}).tag(f"{registry}/foreign", "1")
    remove_later(f"{registry}/foreign:1")
    lines = list(engine.api.push(f"{registry}/foreign", "1", stream=True, decode=True))
    digest = next(line["aux"]["Digest"] for line in lines if "aux" in line)
    said = checkout.call("registry.pull", f"{registry}/foreign@{digest}")
    assert "is not an image of trace-bench" in said["error"]
    assert not (checkout.home / "images.lock.json").exists()
