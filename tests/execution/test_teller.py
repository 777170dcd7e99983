"""What shows a run may stand still, or fail: jobs go on, or end in order."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.execution.bench import Bench, table
from tests.execution.supervisor import Script
from tests.execution.test_interruptions import When, tables_are_those_of_the_files
from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution import teller
from trace_bench.execution.progress import Quiet
from trace_bench.execution.teller import Teller
from trace_bench.planning.ownership import has_controller


def test_messages_of_a_thread_keep_their_order_and_beginnings_and_ends_are_never_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(teller, "MANY", 50)
    heard: list[tuple[str, int, int]] = []
    at_once, lock, go = [], threading.Lock(), threading.Event()

    class Hears(Quiet):
        def said(self, job: Any, phase: str, text: str) -> None:
            go.wait(20)
            at_once.append(lock.acquire(blocking=False))
            heard.append((phase, job, int(text)))
            lock.release()

    told_by = Teller(Hears())

    def talk(who: int) -> None:
        for number in range(100):
            kind = "step" if 0 < number < 99 else "edge"
            told_by.tell(
                lambda progress, kind=kind, number=number: progress.said(who, kind, str(number)),  # type: ignore[arg-type, misc]
                droppable=kind == "step",
            )

    threads = [threading.Thread(target=talk, args=(who,), daemon=True) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "telling never waits"
    go.set()
    told_by.close()
    told_by.check()
    assert all(at_once), "one at a time"
    for who in range(8):
        numbers = [number for _, speaker, number in heard if speaker == who]
        assert numbers == sorted(numbers)
        assert {number for kind, speaker, number in heard if speaker == who and kind == "edge"} == {0, 99}
    assert 16 <= len(heard) < 200


def test_after_a_failure_nothing_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Fails(Quiet):
        def said(self, job: Any, phase: str, text: str) -> None:
            heard.append(text)
            raise BrokenPipeError("nobody reads")

    told_by = Teller(Fails())
    for text in ("a", "b"):
        told_by.tell(lambda progress, text=text: progress.said(None, "", text))  # type: ignore[arg-type, misc]
    told_by.close()
    assert heard == ["a"]
    with pytest.raises(BrokenPipeError):
        told_by.check()


def test_a_progress_that_stands_still_does_not_hold_up_jobs(bench: Bench) -> None:
    removed: list[int] = []

    def stand_still() -> None:
        patience = time.monotonic() + 10
        while bench.backend.removed < 4 and time.monotonic() < patience:
            time.sleep(0.01)
        removed.append(bench.backend.removed)

    assert bench.run(When(1, stand_still)).ok
    assert removed == [4]


@pytest.mark.parametrize("place", ["begun", "advanced", "ended"])
def test_a_progress_that_fails_ends_the_run_in_order(bench: Bench, place: str) -> None:
    bench.backend.script = lambda job_id, number: Script() if place == "ended" else Script(ends="hangs")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the terminal has gone")

    progress = Quiet()
    setattr(progress, place, fail)
    with pytest.raises(RuntimeError, match="the terminal has gone"):
        bench.run(progress)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and not has_controller(layout)
    assert tables_are_those_of_the_files(layout) and len(table(layout)) == 4
    stopped = {row["stop_reason"] for row in table(layout) if row["status"] != "skipped"}
    assert stopped <= {"completed" if place == "ended" else "interrupted"}
    made = len(bench.backend.created)
    bench.backend.script = lambda job_id, number: Script()
    result = bench.run(run_id=layout.run_id)
    assert result.ok and len(bench.backend.created) - made == (0 if place == "ended" else 4)
