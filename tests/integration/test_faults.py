"""Every fault that a long run meets: `run` again finishes, nothing runs twice, nothing is left, every file is whole."""

from __future__ import annotations

import os
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.faults import (
    ENGINE,
    Trial,
    Undisturbed,
    door,
    finished,
    matrix_config,
    run_undisturbed,
)
from tests.integration.test_interruption import wait_for

pytestmark = pytest.mark.docker

JOBS = 8


def matrix(folder: Path, seconds: float = 0.2, **config: Any) -> Path:
    """Eight jobs of about a second and a half."""
    tasks = [{"id": "internal:slow", "eval_kwargs": {"seconds": seconds}}, "internal:numeric_param"]
    return matrix_config(folder, **{"tasks": tasks, "seeds": [1, 2, 3, 4], **config})


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The matrix when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return run_undisturbed(folder, images, matrix(folder))


def killed_at_random(trial: Trial, times: int, seed: int) -> int:
    """Kill the controller `times` times, or as often as the run lasts. Returns how often that was."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    for done in range(times):
        if trial.is_recorded:
            return done  # a quick machine: one more start would be another run
        with trial.controller() as process, suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.3, 1.6))
    return times


@pytest.mark.slow
def test_twenty_kills_at_random_instants_lose_nothing(undisturbed: Undisturbed, images: Path, tmp_path: Path) -> None:
    """The seed is another one each day; ``TRACE_BENCH_FAULT_SEED`` gives that of a run that failed."""
    seed = int(os.environ.get("TRACE_BENCH_FAULT_SEED", time.time() // 86400))
    trial = Trial(tmp_path, images, matrix(tmp_path, seconds=1.2))
    assert killed_at_random(trial, 20, seed) == 20, "the run was over before; give its jobs more to do"
    trial.finish()
    other = tmp_path / "undisturbed"
    other.mkdir()
    trial.check(run_undisturbed(other, images, matrix(other, seconds=1.2)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_kills_at_random_instants_lose_nothing(
    undisturbed: Undisturbed, images: Path, tmp_path: Path, seed: int
) -> None:
    trial = Trial(tmp_path, images, matrix(tmp_path))
    killed_at_random(trial, 10, seed=seed)
    trial.finish()
    trial.check(undisturbed)


@pytest.mark.slow
@pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock")
def test_an_engine_that_goes_and_comes_back(
    undisturbed: Undisturbed, images: Path, tmp_path: Path, engine: str
) -> None:
    trial = Trial(tmp_path, images, matrix(tmp_path))
    with door() as way, trial.controller(DOCKER_HOST=way.url) as process:
        wait_for(lambda: len(finished(tmp_path)) >= 1)
        way.shut()
        time.sleep(4)
        assert process.poll() is None, "it waits"
        way.open()
        said = trial.ended(process)
        assert process.returncode == 0, said
    trial.check(undisturbed)
