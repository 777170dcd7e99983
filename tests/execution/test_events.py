"""What shows a run may stand still, or fail: jobs go on, or end in order."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.execution.bench import Bench, table
from tests.execution.supervisor import Script
from tests.execution.test_interruptions import When, tables_are_those_of_the_files
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution import events
from trace_bench.execution.events import (
    CandidateEvaluated,
    EventDispatcher,
    JobQueued,
    RunEnded,
    RunStarted,
    SandboxOutput,
)


def test_messages_of_a_thread_keep_their_order_and_beginnings_and_ends_are_never_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MOST_PENDING", 50)
    heard: list[tuple[str, int, int]] = []
    at_once, lock, go = [], threading.Lock(), threading.Event()

    def subscriber(event: Any) -> None:
        go.wait(20)
        at_once.append(lock.acquire(blocking=False))
        edge = isinstance(event, JobQueued)
        heard.append(("edge" if edge else "step", event.job, int(event.host if edge else event.text)))
        lock.release()

    dispatcher = EventDispatcher(subscriber)

    def talk(who: Any) -> None:
        for number in range(100):
            frequent = 0 < number < 99
            dispatcher.notify(SandboxOutput(who, "", str(number)) if frequent else JobQueued(who, str(number)))

    threads = [threading.Thread(target=talk, args=(who,), daemon=True) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a notification never waits"
    go.set()
    dispatcher.close()
    dispatcher.check()
    assert all(at_once), "one at a time"
    for who in range(8):
        numbers = [number for _, speaker, number in heard if speaker == who]
        assert numbers == sorted(numbers)
        assert {number for kind, speaker, number in heard if speaker == who and kind == "edge"} == {0, 99}
    assert 16 <= len(heard) < 200


def test_after_a_failure_the_subscriber_gets_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def subscriber(event: Any) -> None:
        heard.append(event.text)
        raise BrokenPipeError("the reader has gone")

    job: Any = None
    dispatcher = EventDispatcher(subscriber)
    for text in ("a", "b"):
        dispatcher.notify(SandboxOutput(job, "", text))
    dispatcher.close()
    assert heard == ["a"]
    with pytest.raises(BrokenPipeError):
        dispatcher.check()


def test_a_subscriber_that_stands_still_does_not_hold_up_jobs(bench: Bench) -> None:
    removed: list[int] = []

    def stand_still() -> None:
        patience = time.monotonic() + 10
        while bench.backend.removed < 4 and time.monotonic() < patience:
            time.sleep(0.01)
        removed.append(bench.backend.removed)

    assert bench.run(When(1, stand_still)).ok
    assert removed == [4]


@pytest.mark.parametrize("kind", [RunStarted, CandidateEvaluated, RunEnded])
def test_a_subscriber_that_fails_ends_the_run_in_order(bench: Bench, kind: type) -> None:
    bench.backend.script = lambda job_id, number: Script() if kind is RunEnded else Script(ends="hangs")

    def subscriber(event: Any) -> None:
        if isinstance(event, kind):
            raise RuntimeError("the terminal has gone")

    with pytest.raises(RuntimeError, match="the terminal has gone"):
        bench.run(subscriber)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and not has_controller(layout)
    assert tables_are_those_of_the_files(layout) and len(table(layout)) == 4
    stopped = {row["stop_reason"] for row in table(layout) if row["status"] != "skipped"}
    assert stopped <= {"completed" if kind is RunEnded else "interrupted"}
    made = len(bench.backend.created)
    bench.backend.script = lambda job_id, number: Script()
    result = bench.run(run_id=layout.run_id)
    assert result.ok and len(bench.backend.created) - made == (0 if kind is RunEnded else 4)
