"""The fault matrix: what may happen to a run, and one oracle for all of it (`tests.integration.faults.Trial.check`)."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import Asked, Behaviour, OpenAIServer
from tests.integration.cli import TASKS, environment
from tests.integration.faults import (
    ENGINE,
    Trial,
    Undisturbed,
    attempts_of,
    docker,
    door,
    finished,
    matrix_config,
    meet,
    phase_of,
    run_of,
    run_undisturbed,
)
from tests.integration.files import paid_calls
from tests.integration.test_interruption import containers, wait_for

pytestmark = pytest.mark.docker

behind_a_door = pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock")
FAULTS = {
    "killed in train": True,
    "removed in train": True,
    "removed with its volume in train": True,
    "stopped in train": True,
    "paused in train": False,
    "cut off in train": False,
    "killed in score": True,
    "removed in score": True,
    "paused in score": False,
    "cut off in score": False,
}
"""What happens to a container in a phase, and whether it costs the job an attempt."""


def phased(folder: Path, jobs: int, **config: Any) -> Path:
    task = {"id": "internal:phased", "eval_kwargs": {"training": 0.2, "scoring": 0.6}}
    return matrix_config(folder, tasks=[task], seeds=list(range(1, jobs + 1)), **config)


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    return run_undisturbed(folder, images, phased(folder, len(FAULTS)))


def _remove_all(container: str) -> None:
    (volume,) = [m["Name"] for m in json.loads(_said("inspect", container))[0]["Mounts"] if m["Type"] == "volume"]
    docker("rm", "-f", container)
    docker("volume", "rm", "-f", volume)


def _said(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def _pause(container: str) -> None:
    docker("pause", container)
    time.sleep(1.0)
    docker("unpause", container)


@pytest.mark.slow
@behind_a_door
def test_whatever_happens_to_a_container_costs_its_job_an_attempt_at_most(
    undisturbed: Undisturbed, images: Path, tmp_path: Path
) -> None:
    trial = Trial(tmp_path, images, phased(tmp_path, len(FAULTS)))
    with door() as way:
        deeds: dict[str, Callable[[str], None]] = {
            "killed": lambda c: docker("kill", c),
            "removed": lambda c: docker("rm", "-f", c),
            "removed with its volume": _remove_all,
            "stopped": lambda c: docker("stop", "-t", "30", c),
            "paused": _pause,
            "cut off": way.cut,
        }
        by_job = dict(zip(undisturbed.rows, FAULTS, strict=True))
        with trial.controller(DOCKER_HOST=way.url) as process:
            wait_for(lambda: (tmp_path / "runs").is_dir() and any((tmp_path / "runs").iterdir()))
            meet(tmp_path, {job: (f.split()[-1], deeds[f.rpartition(" in ")[0]]) for job, f in by_job.items()}, process)
            said = trial.ended(process)
            assert process.returncode == 0, said
    met = {}
    for job_id, fault in by_job.items():
        *first, last = attempts_of(tmp_path, job_id)
        assert last["status"] == "ok", fault
        met[fault] = [a["failure"]["boundary"] for a in first]
    assert met == {fault: ["sandbox"] if costs else [] for fault, costs in FAULTS.items()}
    (stopped,) = [a for job_id in by_job for a in attempts_of(tmp_path, job_id)[:-1]
                  if a["failure"]["kind"] == "sandbox_stopped"]  # fmt: skip
    assert "something outside" in stopped["failure"]["message"]
    trial.check(undisturbed)


# -- the controller ---------------------------------------------------------------------------------------------------


def _close_terminal(trial: Trial, enough: Callable[[], bool]) -> None:
    """Run the controller at a terminal of its own, and close that."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "trace_bench", "run", "--config", str(trial.config), "--root", str(TASKS)]
    process = subprocess.Popen(["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave,
                               env=environment(trial.home, TERM="xterm"))  # fmt: skip
    os.close(slave)
    try:
        while not enough():
            assert process.poll() is None
            if select.select([master], [], [], 0.05)[0]:
                os.read(master, 1 << 16)
        os.close(master)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()


def _more_finished(trial: Trial, number: int) -> Callable[[], bool]:
    """Whether so many more jobs have finished than now, and another one is at work."""
    before = len(finished(trial.folder))
    return lambda: len(finished(trial.folder)) >= before + number


@pytest.mark.slow
@behind_a_door
def test_a_controller_that_is_stopped_in_any_way_again_and_again(
    undisturbed: Undisturbed, images: Path, tmp_path: Path
) -> None:
    """One run, ended by a closed terminal, SIGTERM, Ctrl-C while a job is collected, two Ctrl-Cs, and kill -9 while a
    job is collected; and stopped for a while."""
    trial = Trial(tmp_path, images, phased(tmp_path, len(FAULTS)))
    _close_terminal(trial, _more_finished(trial, 1))
    trial.nothing_finished_is_lost()
    trial.stopped()

    with trial.controller() as process:
        wait_for(_more_finished(trial, 1))
        process.send_signal(signal.SIGTERM)
        said = trial.ended(process)
        assert process.returncode == 130 and "continues" in said
    trial.stopped()

    with door() as way, way.held(b"/archive?") as reached, trial.controller(DOCKER_HOST=way.url) as process:
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        way.release()
        trial.ended(process)
        assert process.returncode == 130
    trial.stopped()

    with trial.controller() as process:
        wait_for(lambda: any(c["State"] == "running" for c in containers(run_of(tmp_path).name)))
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        trial.ended(process)
        assert process.returncode == 130
    trial.stopped()

    with door() as way, way.held(b"/archive?") as reached, trial.controller(DOCKER_HOST=way.url) as process:
        assert reached.wait(60)
        process.kill()

    with trial.controller() as process:
        wait_for(lambda: any(c["State"] == "running" for c in containers(run_of(tmp_path).name)))
        process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        said = trial.ended(process)
        assert process.returncode == 0, said
    trial.check(undisturbed)


# -- the clock --------------------------------------------------------------------------------------------------------


def _faketime() -> str | None:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


@pytest.mark.slow
@pytest.mark.skipif(_faketime() is None, reason="libfaketime is missing (Debian: apt-get install libfaketime)")
def test_a_clock_that_jumps_changes_nothing(undisturbed: Undisturbed, images: Path, tmp_path: Path) -> None:
    """An hour forward and two back while jobs run, more while the controller is dead, and a day forward in the end. The
    budget of the run would not last an hour."""
    config = phased(tmp_path, len(FAULTS), budget={"run": {"seconds": 1800}})
    offset = tmp_path / "offset"

    def jump(seconds: int) -> None:
        (tmp_path / "next").write_text(f"{seconds:+d}\n")
        (tmp_path / "next").replace(offset)

    env = {"LD_PRELOAD": str(_faketime()), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1",
           "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}  # fmt: skip

    def noted(hour: int) -> bool:
        """Whether the newest line of the run's journal is of that hour from now."""
        lines = list((tmp_path / "runs").glob("*/events.jsonl"))
        text = lines[0].read_text().splitlines() if lines else []
        said = [json.loads(line)["t"] for line in text if line.endswith("}")]
        return bool(said) and round((datetime.fromisoformat(said[-1]).timestamp() - time.time()) / 3600) == hour

    trial = Trial(tmp_path, images, config, env=env)
    with trial.controller() as process:
        for hour in (0, 1, -1, 1):
            jump(hour * 3600)
            wait_for(lambda hour=hour: noted(hour))
        process.kill()
    jump(-7200)
    with trial.controller() as process:
        wait_for(lambda: noted(-2))
        jump(86400)
        said = trial.ended(process)
        assert process.returncode == 0 and noted(24), said
    trial.check(undisturbed)


@behind_a_door
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_run_that_is_stopped_while_it_is_planned_was_never_there(
    images: Path, tmp_path: Path, engine: str, number: signal.Signals
) -> None:
    trial = Trial(tmp_path, images, phased(tmp_path, 1))
    with door() as way, way.held(b"GET /") as asked, trial.controller(DOCKER_HOST=way.url) as process:
        assert asked.wait(60)
        process.send_signal(number)
        trial.ended(process)
        assert process.returncode == 130
    assert not (tmp_path / "runs").exists()


@behind_a_door
@pytest.mark.slow
def test_a_controller_that_stands_still_for_longer_than_the_lease(
    undisturbed: Undisturbed, images: Path, tmp_path: Path
) -> None:
    """Its sandboxes end by themselves, and it makes new ones. A sandbox that stands still for that long goes on."""
    trial = Trial(tmp_path, images, phased(tmp_path, len(FAULTS)))
    with trial.controller() as process:
        # Training asks the controller for answers, and cannot end meanwhile.
        wait_for(lambda: any(phase_of(tmp_path, path.name) == "train" for path in tmp_path.glob("runs/*/jobs/*")))
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not any(c["State"] == "running" for c in containers(run_of(tmp_path).name)), 100)
        process.send_signal(signal.SIGCONT)
        asleep = wait_for(lambda: [c for c in containers(run_of(tmp_path).name) if c["State"] == "running"])[0]
        docker("pause", asleep["Id"])
        time.sleep(65)
        docker("unpause", asleep["Id"])
        said = trial.ended(process)
        assert process.returncode == 0, said
    assert "no controller renewed the lease" in said
    trial.check(undisturbed)


# -- the process that asks the providers ------------------------------------------------------------------------------


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer() as server:
        server.choose = lambda asked: Behaviour(delay=0.2)
        yield server


def _asking(folder: Path, server: OpenAIServer) -> Path:
    llm = {"provider": "openai", "model": "gpt-x", "base_url": server.url, "prices": {"prompt": 1.0, "completion": 4.0}}
    return matrix_config(folder, mode="real", tasks=["internal:numeric_param"], seeds=[1, 2, 3], llm=llm)


def _child_of(pid: int) -> int | None:
    """The one process that the controller has started for good: that which asks the providers."""
    found = {int(c) for t in Path(f"/proc/{pid}/task").glob("*/children") for c in t.read_text().split()}
    return found.pop() if len(found) == 1 else None


def _lost(folder: Path) -> int:
    """Tries that came to nothing because the process ended."""
    lines = [line for p in run_of(folder).glob("jobs/*/llm.jsonl") for line in p.read_text().splitlines()]
    return sum("the process that asks" in (t["error"] or "") for line in lines for t in json.loads(line)["tries"])


def _as_undisturbed(trial: Trial, server: OpenAIServer, images: Path) -> None:
    paid, asked, lost = len(paid_calls(run_of(trial.folder))), len(_posts(server)), _lost(trial.folder)
    assert paid <= asked <= paid + lost, "asked again is only what was under way when the process ended"
    twin = trial.folder / "twin"
    twin.mkdir()
    trial.check(run_undisturbed(twin, images, _asking(twin, server)))


def _posts(server: OpenAIServer) -> list[Asked]:
    return server.asked("/v1/chat/completions")


@contextmanager
def _under_way(server: OpenAIServer) -> Iterator[threading.Event]:
    """Hold the fifth request until the end of the block; the event is set once it is there."""
    there, go_on = threading.Event(), threading.Event()

    def choose(asked: Asked) -> Behaviour:
        if len(_posts(server)) != 5 or there.is_set():
            return Behaviour(delay=0.2)
        there.set()
        return Behaviour(hold=go_on)

    server.choose = choose
    try:
        yield there
    finally:
        go_on.set()


@pytest.mark.slow
def test_a_provider_process_that_is_killed_costs_the_calls_under_way_a_try(
    provider: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    trial = Trial(tmp_path, images, _asking(tmp_path, provider))
    with trial.controller() as process:
        with _under_way(provider) as there:
            assert there.wait(120)
            os.kill(wait_for(lambda: _child_of(process.pid)), signal.SIGKILL)
        said = trial.ended(process)
        assert process.returncode == 0, said
    assert _lost(tmp_path) > 0
    _as_undisturbed(trial, provider, images)


@pytest.mark.slow
def test_a_provider_process_that_hangs_is_replaced(provider: OpenAIServer, images: Path, tmp_path: Path) -> None:
    trial = Trial(tmp_path, images, _asking(tmp_path, provider))
    with trial.controller() as process:
        with _under_way(provider) as there:
            assert there.wait(120)
            os.kill(wait_for(lambda: _child_of(process.pid)), signal.SIGSTOP)
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    assert _lost(tmp_path) > 0
    _as_undisturbed(trial, provider, images)
