"""Every fault that a long run meets: `run` again finishes, nothing runs twice, nothing is left, every file is whole."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, environment, start, write_config
from tests.integration.files import check_files, paid_calls
from tests.integration.test_interruption import containers, wait_for
from trace_bench.artifacts.layout import RunLayout
from trace_bench.controller.resume import is_recorded

pytestmark = pytest.mark.docker

ENGINE = Path("/var/run/docker.sock")
JOBS = 8
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}


def matrix(folder: Path, seconds: float = 0.2, **config: Any) -> Path:
    """Eight jobs of about a second and a half; without a run id, so that `run` must find the run that it continues."""
    tasks = [{"id": "internal:slow", "eval_kwargs": {"seconds": seconds}}, "internal:numeric_param"]
    given = {"tasks": tasks, "trainers": [SEARCH], "seeds": [1, 2, 3, 4], "max_workers": 3, "retries": 2, **config}
    return write_config(folder, **given)


def run_of(folder: Path) -> Path:
    """The one run that is there."""
    (found,) = (folder / "runs").iterdir()
    return found


def finished(folder: Path) -> dict[str, int]:
    """Jobs with a result that counts, and when it was written."""
    if not (folder / "runs").is_dir():
        return {}
    found = {}
    for path in (folder / "runs").glob("*/jobs/*/results.json"):
        row = json.loads(path.read_text())
        if row["status"] == "ok" and row["stop_reason"] != "interrupted":
            found[path.parent.name] = path.stat().st_mtime_ns
    return found


def finish(folder: Path, home: Path) -> None:
    """The same command once more finishes the run, and does nothing again that was finished."""
    before = finished(folder)
    if before and is_recorded(RunLayout(run_of(folder))):
        return
    done = cli("run", "--config", str(folder / "config.json"), "--root", str(TASKS), home=home)
    assert done.returncode == 0, done.stderr
    after = finished(folder)
    assert {k: after[k] for k in before} == before, "what is finished is not run again"


def check_whole(folder: Path, engine: str | None = None) -> None:
    """Everything about the run is as if nothing had happened to it."""
    run = run_of(folder)
    assert len(finished(folder)) == JOBS
    assert len(paid_calls(run)) == len(set(paid_calls(run))), "no call is paid twice"
    assert check_files(run) > 0
    assert containers(run.name, engine) == []
    assert json.loads((run / "meta" / "lock.json").read_text())["salt"]
    assert json.loads((run / "summary.json").read_text())["counts"] == {
        "ok": JOBS,
        "failed": 0,
        "interrupted": 0,
        "skipped": 0,
    }
    assert len((run / "results.csv").read_text().splitlines()) == JOBS + 1


def scores(folder: Path) -> dict[str, Any]:
    rows = [json.loads(p.read_text()) for p in run_of(folder).glob("jobs/*/results.json")]
    return {row["job_id"]: (row["score_initial"], row["score_best"], row["score_final"]) for row in rows}


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The scores of the matrix when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = cli("run", "--config", str(matrix(folder)), "--root", str(TASKS), home=images)
    assert done.returncode == 0, done.stderr
    return scores(folder)


def killed_at_random(folder: Path, home: Path, times: int, seed: int) -> list[int]:
    """Kill the controller `times` times; how many jobs were finished after each."""
    config, chance, counts = matrix(folder), random.Random(seed), []
    for _ in range(times):
        if counts and counts[-1] and is_recorded(RunLayout(run_of(folder))):
            break  # a quick machine: one more start would be another run
        process = start("run", "--config", str(config), "--root", str(TASKS), home=home)
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.3, 1.6))
        process.kill()
        process.communicate(timeout=30)
        known = finished(folder)
        counts.append(len(known))
    return counts


def test_ten_kills_at_random_instants_lose_nothing(undisturbed: dict[str, Any], images: Path, tmp_path: Path) -> None:
    killed_at_random(tmp_path, images, 10, seed=1)
    finish(tmp_path, images)
    check_whole(tmp_path)
    assert scores(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_more_kills_at_random_instants_lose_nothing(
    undisturbed: dict[str, Any], images: Path, tmp_path: Path, seed: int
) -> None:
    killed_at_random(tmp_path, images, 10, seed=seed)
    finish(tmp_path, images)
    check_whole(tmp_path)
    assert scores(tmp_path) == undisturbed


def test_ctrl_c_and_the_same_command_again(undisturbed: dict[str, Any], images: Path, tmp_path: Path) -> None:
    config = matrix(tmp_path)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(finished(tmp_path)) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err and "continues" in err
    run = run_of(tmp_path)
    assert containers(run.name) == []
    assert check_files(run) > 0, "an interrupted run is whole too"
    with (run / "results.csv").open(newline="") as file:
        kinds = [(row["status"], row["failure_kind"]) for row in csv.DictReader(file)]
    assert len(kinds) == JOBS and ("skipped", "not_executed") in kinds, "what never ran says so"
    finish(tmp_path, images)
    check_whole(tmp_path)
    assert scores(tmp_path) == undisturbed


def test_a_container_removed_under_us_costs_an_attempt_and_no_more(
    undisturbed: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    config = matrix(tmp_path)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(finished(tmp_path)) >= 1)
    name = run_of(tmp_path).name
    victim = wait_for(lambda: [c for c in containers(name) if c["State"] == "running"])[0]
    subprocess.run(["docker", "rm", "-f", victim["Id"]], check=True, capture_output=True)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    check_whole(tmp_path)
    assert scores(tmp_path) == undisturbed


class Door:
    """A socket in front of the engine's own, which can be shut: to its clients the engine is gone, as when its daemon
    is restarted with containers kept alive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener: socket.socket | None = None
        self._through: list[socket.socket] = []

    def open(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        assert self._listener is not None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink()
        for end in self._through:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._through.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(str(ENGINE))
            self._through += [client, engine]
            for source, target in ((client, engine), (engine, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def door(engine: str) -> Iterator[Door]:
    folder = Path(f"/tmp/tb-door-{os.getpid()}-{time.time_ns()}")  # a socket's path must be short
    folder.mkdir()
    door = Door(folder / "s")
    door.open()
    yield door
    with suppress(AssertionError, OSError):
        door.shut()
    folder.rmdir()


@contextmanager
def running(config: Path, home: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "trace_bench", "run", "--config", str(config), "--root", str(TASKS)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(home, **env),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(
    not Path("/var/run/docker.sock").is_socket(), reason="the engine is not behind /var/run/docker.sock"
)
def test_an_engine_that_goes_and_comes_back(
    undisturbed: dict[str, Any], images: Path, tmp_path: Path, door: Door
) -> None:
    config = matrix(tmp_path)
    with running(config, images, DOCKER_HOST=f"unix://{door.path}") as process:
        wait_for(lambda: len(finished(tmp_path)) >= 1)
        door.shut()
        time.sleep(4)
        assert process.poll() is None, "it waits"
        door.open()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in err, err
    check_whole(tmp_path)
    assert scores(tmp_path) == undisturbed
