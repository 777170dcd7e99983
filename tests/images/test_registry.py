"""Images by digest, against a real registry on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import TOP, Checkout
from trace_bench.errors import ConfigError
from trace_bench.images.registry import pull, push

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
    """The files of a whole image take long to compress."""
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


def test_a_tag_is_not_pulled() -> None:
    with pytest.raises(ConfigError, match="names no digest"):
        pull("127.0.0.1:1/trace-bench/core:latest")


def test_what_is_no_registry_is_refused() -> None:
    for name in ("http://host:5000", "host:5000/x:tag", "", "-x", "a b"):
        with pytest.raises(ConfigError, match="is no registry"):
            push("core", name)


def test_a_foreign_image_is_not_locked(
    registry: str, engine: Any, checkout: Checkout, tmp_path: Path, remove_later: Any
) -> None:
    small_image(engine, tmp_path, {"made.by": "another project"}).tag(f"{registry}/foreign", "1")
    remove_later(f"{registry}/foreign:1")
    lines = list(engine.api.push(f"{registry}/foreign", "1", stream=True, decode=True))
    digest = next(line["aux"]["Digest"] for line in lines if "aux" in line)
    said = checkout.call("registry.pull", f"{registry}/foreign@{digest}")
    assert "is no image of trace-bench" in said["error"]
    assert not (checkout.home / "images.lock.json").exists()
