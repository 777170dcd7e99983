"""What is inside an image, and that two builds of one recipe are one image."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import Checkout
from trace_bench.images import debian
from trace_bench.images.build import silent
from trace_bench.images.engine import connect

pytestmark = pytest.mark.docker
SLOW = pytest.mark.slow

Built = tuple[Checkout, dict[str, Any]]


def inside(engine: Any, ref: str, code: str) -> Any:
    output = engine.containers.run(
        ref, ["python3", "-I", "-c", f"import json, sys\n{code}\nprint(json.dumps(answer))"],
        remove=True, network_mode="none", read_only=True, labels={"trace-bench.test": "images"},
    )  # fmt: skip
    return json.loads(output)


def test_isolated_interpreter_sees_worker_and_graph_library(engine: Any, built: Built) -> None:
    code = """
import importlib.util, trace_bench.worker, trace_bench.trainers.base, trace_bench.suites.base
names = ["trace_bench", "opto", "pip_is_absent", "litellm", "pydantic", "docker"]
answer = {n: (s := importlib.util.find_spec(n)) and s.origin for n in names}"""
    found = inside(engine, built[1]["ref"], code)
    assert found["trace_bench"] == "/opt/trace-bench/lib/trace_bench/__init__.py"
    assert found["opto"] == "/opt/trace-bench/site/opto/__init__.py"
    assert [n for n in ("litellm", "pydantic", "docker") if found[n]] == []


def test_nothing_of_the_build_stays_behind(engine: Any, built: Built) -> None:
    code = """
import os
answer = [os.path.join(d, n) for d, dirs, files in os.walk("/", topdown=True)
          if not dirs.__setitem__(slice(None), [x for x in dirs if os.path.join(d, x) not in ("/proc", "/sys")])
          for n in [*dirs, *files] if n == "wheelhouse" or n.endswith(".whl")]
answer += [p for p in ("/root/.cache", "/install", "/etc/apt/sources.list") if os.path.exists(p)]"""
    assert inside(engine, built[1]["ref"], code) == []


@pytest.mark.slow
def test_the_engine_keeps_no_stage_of_the_build(
    engine: Any, checkout: Checkout, remove_later: Callable[[str], None]
) -> None:
    mark = f"trace-bench.test-stage={uuid.uuid4()}"
    dockerfile = checkout.folder / "images" / "worker.Dockerfile"
    text = dockerfile.read_text()
    label = 'LABEL trace-bench.stage="worker"'
    assert label in text
    dockerfile.write_text(text.replace(label, f"LABEL {mark}"))
    remove_later(checkout.call("build.build", "core")["ref"])
    assert engine.images.list(all=True, filters={"label": mark}) == []


def test_byte_code_is_there_and_unchecked(engine: Any, built: Built) -> None:
    code = """
import importlib.util, pathlib, json, opto, trace_bench.errors
answer = {}
for module in (json, opto, trace_bench.errors):
    cached = pathlib.Path(importlib.util.cache_from_source(module.__file__))
    answer[module.__name__] = int.from_bytes(cached.read_bytes()[4:8], "little")"""
    flags = inside(engine, built[1]["ref"], code)
    assert flags["opto"] == flags["trace_bench.errors"] == 0b01  # hash-based, not checked (PEP 552)
    assert flags["json"] in (0b00, 0b01)


def test_environment_command_and_labels(engine: Any, built: Built) -> None:
    pin = built[1]
    image = engine.images.get(pin["ref"])
    config = image.attrs["Config"]
    assert {"PYTHONHASHSEED=0", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "TRACE_BENCH_PRELOAD="} <= set(
        config["Env"]
    )
    assert not config["Entrypoint"] and not config["User"]
    assert image.labels["trace-bench.family"] == "core"
    assert image.labels["trace-bench.image-key"] == pin["key"]
    assert image.labels["org.opencontainers.image.version"]
    assert pin["ref"] == f"trace-bench/core:{pin['key'][:12]}"
    assert inside(engine, pin["ref"], "import os; answer = os.path.isdir('/out')") is True


def test_labels_name_source_revision_and_version(checkout: Checkout) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", "-C", str(checkout.folder), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "a checkout")
    git("remote", "add", "origin", "https://user:word@example.org:8443/lab/trace-bench")
    ask = "answer = build._provenance(layers.family_named('core'))"
    labels = checkout.python(ask)
    prefix = "org.opencontainers.image."
    assert labels[prefix + "source"] == "https://example.org/lab/trace-bench"
    assert labels[prefix + "revision"] == git("rev-parse", "HEAD") and labels[prefix + "version"]
    checkout.edit("images/core/Dockerfile")
    assert checkout.python(ask)[prefix + "revision"] == git("rev-parse", "HEAD") + "-dirty"


@pytest.mark.slow
def test_a_second_build_keeps_the_key(engine: Any, built: Built) -> None:
    checkout, pin = built
    engine.images.remove(pin["ref"], force=True)
    again = checkout.call("build.build", "core")
    assert (again["key"], again["ref"], again["base"]) == (pin["key"], pin["ref"], pin["base"])
    unchanged = checkout.call("build.build", "core")
    assert unchanged == again


def test_a_failed_build_ends_with_its_last_lines(checkout: Checkout) -> None:
    checkout.edit("images/base/Dockerfile", "\nRUN echo the reason is this; exit 7\n")
    said = checkout.call("build.build", "core")
    assert said["exit_code"] == 3
    assert "trace-bench/base-deps:" in said["error"] and "cannot be built" in said["error"]
    assert "the reason is this" in said["error"] and "\x1b" not in said["error"]
    assert len(said["error"].splitlines()) <= 21


def test_a_base_that_is_nowhere_is_named_with_a_remedy(checkout: Checkout) -> None:
    said = checkout.call("build.build", "core", base="no-such-registry.invalid/base:1")
    assert said["exit_code"] == 3
    assert "no-such-registry.invalid/base:1 is neither in the engine nor can it be pulled" in said["error"]
    assert "TRACE_BENCH_BASE" in said["error"]


def test_a_base_without_python_is_refused(engine: Any, checkout: Checkout, remove_later: Callable[[str], None]) -> None:
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    engine.api.import_image_from_data(empty.getvalue(), repository="trace-bench-test/no-python", tag="1")
    remove_later("trace-bench-test/no-python:1")
    said = checkout.call("build.build", "core", base="trace-bench-test/no-python:1")
    assert said["exit_code"] == 3
    assert "the base trace-bench-test/no-python:1 does not run python3" in said["error"]


def test_a_given_base_is_known_by_its_contents(engine: Any, built: Built, remove_later: Callable[[str], None]) -> None:
    """A name is no identity: the locked base under another name gives the same key."""
    checkout, pin = built
    home = checkout.home / "images.lock.json"
    (base,) = json.loads(home.read_text())["bases"].values()
    if base["source"] != "debian":
        pytest.skip(f"the base came from {base['source']}, which names its own digest")
    engine.images.get(base["ref"]).tag("trace-bench-test/renamed", "1")
    remove_later("trace-bench-test/renamed:1")
    other = Checkout(checkout.folder, checkout.home / "other")
    assert other.call("build.build", "core", base="trace-bench-test/renamed:1")["key"] == pin["key"]


def test_no_engine_is_one_sentence_within_seconds(checkout: Checkout) -> None:
    started = time.monotonic()
    answer = checkout.python(
        "answer = said(lambda: build.build('core'))", DOCKER_HOST="unix:///nonexistent/docker.sock"
    )
    assert time.monotonic() - started < 10
    assert answer["exit_code"] == 3
    assert "no Docker engine answers at unix:///nonexistent/docker.sock" in answer["error"]
    assert "ensure-engine" in answer["error"] and "local" in answer["error"]


def test_debian_packages_are_found_again_once_they_have_been_downloaded(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = debian.made_base(connect(None))
    if base is None:
        pytest.skip("no base was made from Debian packages here")
    monkeypatch.setattr(debian, "cache_home", lambda: tmp_path / "cache")
    (tmp_path / "debian.txt").write_text("libgomp1  # small\n")
    for _ in range(2):
        found = debian.gather_packages(connect(None), base, tmp_path / "debian.txt", silent)
        assert "libgomp1" in {path.name.partition("_")[0] for path in found}
        assert all(path.stat().st_size > 1000 for path in found)
