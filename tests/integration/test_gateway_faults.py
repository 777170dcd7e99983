"""Faults while paid answers are on their way, in real containers: `run` again finishes, and no call is paid twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.integration.faults import ENGINE, Trial, Undisturbed, door, run_of, run_undisturbed
from tests.integration.files import paid_calls
from tests.integration.test_faults import matrix
from tests.integration.test_interruption import wait_for

pytestmark = pytest.mark.docker

SCRIPT = """
prices: {prompt: 10.0, completion: 40.0}
rules:
  - match: {proposal: 0}
    set: {"*": {add: 0.25}}
    latency: 0.5
default:
  set: {"*": {add: -0.25}}
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
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    return run_undisturbed(folder, images, paid(folder))


@pytest.mark.slow
def test_a_controller_that_is_killed_with_calls_under_way(
    undisturbed: Undisturbed, images: Path, tmp_path: Path
) -> None:
    """Half a second lies between a job's answers: at any instant some call is on its way."""
    trial = Trial(tmp_path, images, paid(tmp_path))
    for more in (3, 6, 9):
        before = answered(tmp_path)
        with trial.controller():
            wait_for(lambda least=before + more: answered(tmp_path) >= least)
    trial.finish()
    trial.check(undisturbed)


@pytest.mark.slow
@pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock")
@pytest.mark.parametrize(
    "moment", [0.2, pytest.param(0.0, marks=pytest.mark.slow), pytest.param(0.4, marks=pytest.mark.slow)]
)
def test_a_control_stream_that_breaks_with_calls_under_way(
    undisturbed: Undisturbed, images: Path, tmp_path: Path, moment: float, engine: str
) -> None:
    trial = Trial(tmp_path, images, paid(tmp_path))
    with door() as way, trial.controller(DOCKER_HOST=way.url) as process:
        wait_for(lambda: answered(tmp_path) >= 4)
        time.sleep(moment)
        way.shut()
        time.sleep(1.5)
        assert process.poll() is None, "it waits"
        way.open()
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    trial.check(undisturbed)
