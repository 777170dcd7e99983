"""Runs use the locked image, quickly, or say why not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import Checkout, copy_checkout

pytestmark = pytest.mark.docker

Built = tuple[Checkout, dict[str, Any]]


@pytest.fixture
def edited(built: Built, tmp_path: Any) -> Checkout:
    """A copy of the built checkout that shares its lock, to be changed."""
    return copy_of(built, tmp_path)


def copy_of(built: Built, folder: Path) -> Checkout:
    checkout, _ = built
    shutil.copytree(checkout.folder, folder / "checkout")
    shutil.copytree(checkout.home, folder / "home")
    return Checkout(folder / "checkout", folder / "home")


def test_the_locked_image_is_found_fast_and_without_processes(built: Built) -> None:
    checkout, pin = built
    code = """
import pathlib, subprocess, time, unittest.mock
from trace_bench.images.engine import connect
home = pathlib.Path(os.environ["TRACE_BENCH_TEST_HOME"])
client = connect()
def refuse(*args, **kwargs):
    raise AssertionError("a process was started")
with unittest.mock.patch.object(subprocess, "Popen", refuse):
    took = []
    for _ in range(5):
        start = time.perf_counter()
        found = pins.ensure("core", allow_build=False, engine=client, home=home)
        took.append(time.perf_counter() - start)
answer = {"ref": found.ref, "drift": found.drift, "seconds": min(took)}
"""
    answer = checkout.python(code)
    assert answer["ref"] == pin["ref"] and answer["drift"] == []
    assert answer["seconds"] < 0.1


def test_without_a_lock_and_without_leave_to_build_it_refuses(checkout: Checkout) -> None:
    said = checkout.call("pins.ensure", "core", allow_build=False)
    assert said == {
        "error": "the image of family core was not built here; run `trace-bench images build core`",
        "exit_code": 3,
    }


@pytest.mark.parametrize(
    ("name", "called"),
    [
        pytest.param("images/core/Dockerfile", "Dockerfile", marks=pytest.mark.slow),
        pytest.param("images/core/requirements.txt", "requirements", marks=pytest.mark.slow),
        ("trace_bench/worker/problem.py", "worker sources"),
    ],
)
def test_drift_is_refused_by_name_with_a_remedy(edited: Checkout, name: str, called: str) -> None:
    edited.edit(name)
    said = edited.call("pins.ensure", "core")
    assert said["exit_code"] == 3
    assert f"but its {called} changed since; run `trace-bench images build core`" in said["error"]
    assert "--accept-drift" in said["error"]
    assert edited.call("pins.verify", "core") == said


def test_another_base_is_drift(
    edited: Checkout, engine: Any, remove_later: Callable[[str], None], built: Built
) -> None:
    engine.images.get(built[1]["ref"]).tag("trace-bench-test/other-base", "1")
    remove_later("trace-bench-test/other-base:1")
    said = edited.call("pins.ensure", "core", base="trace-bench-test/other-base:1")
    assert "but its base changed since" in said["error"]


def test_accepted_drift_runs_the_locked_image_and_says_so(edited: Checkout, built: Built) -> None:
    edited.edit("trace_bench/worker/problem.py")
    edited.edit("images/core/Dockerfile")
    pin = edited.call("pins.ensure", "core", accept_drift=True)
    assert pin["ref"] == built[1]["ref"] and pin["key"] == built[1]["key"]
    assert pin["drift"] == ["dockerfile", "worker"]


@pytest.fixture(scope="module")
def rebuilt(
    built: Built, tmp_path_factory: pytest.TempPathFactory, remove_later: Callable[[str], None]
) -> tuple[Checkout, dict[str, Any]]:
    """A copy of the built checkout that was changed, and the pin of the image that was built anew."""
    changed = copy_of(built, tmp_path_factory.mktemp("rebuilt"))
    changed.edit("trace_bench/worker/problem.py")
    pin = changed.call("build.build", "core")
    remove_later(pin["ref"])
    return changed, pin


def test_building_accepts_the_change(rebuilt: Built, built: Built) -> None:
    changed, fresh = rebuilt
    assert fresh["key"] != built[1]["key"]
    assert changed.call("pins.ensure", "core", allow_build=False) == fresh


@pytest.mark.slow
def test_a_vanished_image_is_built_again_only_with_leave(edited: Checkout, engine: Any, remove_later: Any) -> None:
    edited.edit("trace_bench/worker/problem.py", "\n# vanishes\n")
    pin = edited.call("build.build", "core")
    remove_later(pin["ref"])
    engine.images.remove(pin["ref"], force=True)
    refused = edited.call("pins.ensure", "core", allow_build=False)
    assert f"the engine does not have {pin['ref']}" in refused["error"]
    assert "labels do not agree" in edited.call("pins.verify", "core")["error"]
    again = edited.call("pins.ensure", "core")
    assert again["key"] == pin["key"]


def test_a_tag_that_points_elsewhere_is_not_the_image(rebuilt: Built, built: Built, engine: Any) -> None:
    changed, pin = rebuilt
    repository, _, tag = pin["ref"].partition(":")
    image = engine.images.get(pin["image_id"])
    engine.images.get(built[1]["ref"]).tag(repository, tag)
    try:
        assert "does not have" in changed.call("pins.ensure", "core", allow_build=False)["error"]
    finally:
        image.tag(repository, tag)


def test_images_are_listed_with_their_state(edited: Checkout) -> None:
    edited.edit("trace_bench/worker/problem.py")
    code = """
import pathlib
home = pathlib.Path(os.environ["TRACE_BENCH_TEST_HOME"])
answer = {s.family: [s.pin is not None, s.present, s.drift] for s in pins.list_images(home=home)}"""
    shown = edited.python(code)
    assert shown["core"] == [True, True, ["worker"]]
    assert shown["llm4ad"] == [False, None, []]
    assert edited.python(code, DOCKER_HOST="unix:///nonexistent.sock")["core"] == [True, None, ["worker"]]


def test_an_unknown_family_is_a_usage_error(tmp_path: Any) -> None:
    said = copy_checkout(tmp_path / "c", tmp_path / "h").call("pins.ensure", "unknown")
    assert said["exit_code"] == 2
    assert (
        "unknown image family 'unknown'; choose one of base, core, kernelbench-cpu, kernelbench-cuda, lean, llm4ad"
        in said["error"]
    )
