"""Kills at every instant between a request and the line of its answer: what a provider has answered is in the cassette,
or the cassette says that an answer is lost.

The controller and the provider process are killed at named points (``asking_program.py``), so that each is met in each
test. A provider of ours counts what it was asked.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateway import asking_program
from tests.gateway.asking_program import CALLS
from tests.gateway.openai_server import PLAIN, Behaviour, OpenAIServer
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.usage import is_answer, is_lost, usage_of
from trace_bench.artifacts.writers import read_journal

OF_THE_CONTROLLER = (
    "before the call is handed over", "the call is handed over", "the answer is handed on", "before the line",
    "the line is there", "the file is gone",
)  # fmt: skip
OF_THE_PROVIDER_PROCESS = {
    "before the call is written down": 0,
    "the call is written down": 1,
    "the request is sent": 1,
    "the answer has come": 1,
    "before the answer is written down": 1,
    "the answer is written down": 0,
}
"""Points, and how many answers are lost with the process there. A call that it had not sent costs nothing."""

# A process that was forked from a clean one that has imported all: to start Python takes longer than the test.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.gateway.asking_program"])


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as started:
        yield started


@dataclass
class Job:
    """The calls of one job, asked by one controller after the other."""

    folder: Path
    server: OpenAIServer
    attempts: int = 0

    def start(self, point: str = "") -> multiprocessing.process.BaseProcess:
        self.attempts += 1
        arguments = (self.folder, self.server.url, self.attempts, point)
        process = _forks.Process(target=asking_program.run, args=arguments)
        process.start()
        return process

    def run(self, point: str = "") -> int | None:
        """How it ended."""
        process = self.start(point)
        process.join(60)
        return process.exitcode

    @property
    def lines(self) -> list[LlmCall]:
        return [LlmCall.model_validate(line) for line in read_journal(self.folder / "llm.jsonl").lines]

    @property
    def answers(self) -> list[LlmCall]:
        return [line for line in self.lines if is_answer(line)]

    @property
    def lost(self) -> list[LlmCall]:
        return [line for line in self.lines if is_lost(line)]

    def check(self, *, lost: int) -> None:
        """Every answer that the provider gave is recorded, or is one of `lost` that the record says are lost."""
        assert sorted(str(line.slot) for line in self.answers) == [f"step={n}" for n in range(1, CALLS + 1)]
        assert len(self.lost) == lost
        assert len(self.answers) <= len(self.server.asked()) <= len(self.answers) + lost
        assert not (self.folder / "llm.asked").exists()
        for line in self.lost:
            assert line.prompt_tokens > 0 and line.cost_usd > 0 and "may have been paid" in line.tries[-1].error
        spent = usage_of(self.lines)
        assert spent.calls == CALLS
        assert spent.cost_usd == pytest.approx(sum(line.cost_usd for line in (*self.answers, *self.lost)))
        assert ("may have been paid" in (self.folder / "warnings").read_text()) == bool(lost)


@pytest.fixture
def job(server: OpenAIServer, tmp_path: Path) -> Job:
    return Job(tmp_path, server)


@pytest.mark.parametrize("point", OF_THE_CONTROLLER)
def test_a_controller_that_is_killed_loses_no_answer_and_pays_none_twice(job: Job, point: str) -> None:
    assert job.run(point) == -signal.SIGKILL
    assert job.run() == 0
    job.check(lost=0)
    assert len(job.server.asked()) == CALLS


@pytest.mark.parametrize("point", OF_THE_PROVIDER_PROCESS)
def test_a_provider_process_that_is_killed_leaves_word_of_what_it_had_sent(job: Job, point: str) -> None:
    assert job.run(point) == 0, "the controller goes on"
    assert (job.folder / "killed").exists()
    job.check(lost=OF_THE_PROVIDER_PROCESS[point])


def test_an_answer_that_comes_after_the_controller_was_killed_is_in_the_cassette(job: Job) -> None:
    """The next controller waits for it, and does not ask again."""
    held = _held(job)
    first = job.start()
    _until(lambda: len(job.server.asked()) == CALLS)
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join(60)
    second = job.start()
    time.sleep(0.6)
    assert second.is_alive() and len(job.answers) == 1, "it waits"
    held.set()
    second.join(60)
    assert second.exitcode == 0
    job.check(lost=0)
    assert len(job.server.asked()) == CALLS


def test_an_answer_that_is_lost_with_all_processes_is_recorded_as_lost(job: Job) -> None:
    """No process is left that could hear it: the one thing that cannot be had is the answer."""
    held = _held(job)
    first = job.start()
    _until(lambda: len(job.server.asked()) == CALLS)
    for pid in (int((job.folder / "pid").read_text()), first.pid or 0):
        os.kill(pid, signal.SIGKILL)
    first.join(60)
    held.set()
    assert job.run() == 0
    job.check(lost=1)
    assert len(job.server.asked()) == CALLS + 1


def test_a_controller_that_is_killed_while_it_recovers_records_no_answer_twice(job: Job) -> None:
    assert job.run("before the line") == -signal.SIGKILL
    (left,) = (job.folder / "llm.asked").iterdir()
    again = left.read_bytes()
    assert job.run() == 0
    (job.folder / "llm.asked").mkdir()
    left.write_bytes(again)  # as if it had died before it could remove the file
    assert job.run() == 0
    job.check(lost=0)


@pytest.mark.parametrize("give_up", [True, False])
def test_an_answer_that_comes_after_an_end_in_order_is_lost_or_left_to_the_next_attempt(
    job: Job, give_up: bool
) -> None:
    """It is lost to a job that has ended well, which has no next attempt."""
    held = threading.Event()
    job.server.script(Behaviour(hold=held))
    first = _forks.Process(
        target=asking_program.end_before_the_answer, args=(job.folder, job.server.url), kwargs={"give_up": give_up}
    )
    first.start()
    _until(lambda: len(job.server.asked()) == 1)
    (job.folder / "end").touch()
    first.join(60)
    assert first.exitcode == 0, "it does not wait"
    assert (len(job.answers), len(job.lost)) == (0, int(give_up))
    process = Path("/proc", (job.folder / "pid").read_text())
    assert process.exists(), "it waits for the answer"
    held.set()
    _until(lambda: not process.exists() or process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert job.run() == 0
    job.check(lost=int(give_up))
    assert len(job.server.asked()) == CALLS + give_up


def _held(job: Job) -> threading.Event:
    """Let the provider hold its second answer until the event is set."""
    held = threading.Event()
    job.server.choose = lambda asked: Behaviour(hold=held) if len(job.server.asked()) == CALLS else PLAIN
    return held


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)
