"""Faults while paid answers are on their way, in real containers: `run` again finishes, and no call is paid twice."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, start
from tests.integration.files import paid_calls
from tests.integration.test_faults import ENGINE, Door, check_whole, finish, matrix, run_of, running, scores
from tests.integration.test_interruption import wait_for

pytestmark = pytest.mark.docker

SCRIPT = """
rules:
  - match: {proposal: 0}
    set: {"*": {add: 0.25}}
    usd: 0.01
    latency: 0.5
default:
  set: {"*": {add: -0.25}}
  usd: 0.01
  latency: 0.5
"""


def paid(folder: Path) -> Path:
    """Eight jobs with a model that takes half a second for an answer that costs money."""
    script = folder / "slow.yaml"
    script.write_text(SCRIPT)
    return matrix(folder, 0.0, llm={"model": f"scripted:{script}"})


def answered(folder: Path) -> int:
    return len(paid_calls(run_of(folder))) if (folder / "runs").is_dir() and any((folder / "runs").iterdir()) else 0


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = cli("run", "--config", str(paid(folder)), "--root", str(TASKS), home=images)
    assert done.returncode == 0, done.stderr
    return {"scores": scores(folder), "calls": sorted(paid_calls(run_of(folder)))}


def check_as(undisturbed: dict[str, Any], folder: Path) -> None:
    check_whole(folder)
    assert scores(folder) == undisturbed["scores"]
    assert sorted(paid_calls(run_of(folder))) == undisturbed["calls"]


def test_a_controller_that_is_killed_with_calls_under_way(
    undisturbed: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    """Half a second lies between a job's answers: at any instant some call is on its way."""
    config = paid(tmp_path)
    for more in (3, 6, 9):
        before = answered(tmp_path)
        process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
        wait_for(lambda least=before + more: answered(tmp_path) >= least)
        process.kill()
        process.communicate(timeout=30)
    finish(tmp_path, images)
    check_as(undisturbed, tmp_path)


@contextmanager
def door() -> Iterator[Door]:
    folder = Path(f"/tmp/tb-door-{os.getpid()}-{time.time_ns()}")  # a socket's path must be short
    folder.mkdir()
    found = Door(folder / "s")
    found.open()
    try:
        yield found
    finally:
        with suppress(AssertionError, OSError):
            found.shut()
        folder.rmdir()


@pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock")
@pytest.mark.parametrize(
    "moment", [0.2, pytest.param(0.0, marks=pytest.mark.slow), pytest.param(0.4, marks=pytest.mark.slow)]
)
def test_a_control_stream_that_breaks_with_calls_under_way(
    undisturbed: dict[str, Any], images: Path, tmp_path: Path, moment: float, engine: str
) -> None:
    config = paid(tmp_path)
    with door() as way, running(config, images, DOCKER_HOST=f"unix://{way.path}") as process:
        wait_for(lambda: answered(tmp_path) >= 4)
        time.sleep(moment)
        way.shut()
        time.sleep(1.5)
        assert process.poll() is None, "it waits"
        way.open()
        _, err = process.communicate(timeout=200)
    assert process.returncode == 0 and "Traceback" not in err, err
    check_as(undisturbed, tmp_path)
