"""A run keeps the log of its controllers: what they did, and what they decided after each attempt."""

from __future__ import annotations

from tests.execution.bench import Bench
from tests.execution.conftest import bench as bench
from tests.execution.supervisor import Script
from trace_bench.records.digest import files_index
from trace_bench.records.reading import read_index

ONE = {"tasks": ["internal:numeric_param"], "trainers": [{"id": "NoOp"}], "seeds": [1], "run_id": "one"}


def test_the_log_has_every_decision_and_is_in_the_index(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="dies") if number == 1 else Script()
    layout = bench.run(retries=1, **ONE).layout
    lines = layout.log.read_text(encoding="utf-8").splitlines()
    messages = [line.split(": ", 1)[1] for line in lines]
    events = [message.split(" ")[0] for message in messages]
    assert [event for event in events if event in ("run.start", "attempt.decided", "job.retry", "run.end")] == [
        "run.start", "attempt.decided", "job.retry", "attempt.decided", "run.end",
    ]  # fmt: skip
    decided = [message for message in messages if message.startswith("attempt.decided")]
    assert "attempt=1" in decided[0] and "action=retry" in decided[0] and "boundary=sandbox" in decided[0]
    assert "attempt=2 status=ok action=finish" in decided[1]
    assert events.count("sandbox.created") == 2
    index = read_index(layout)
    assert index is not None and "meta/controller.log" in {entry.path for entry in index.files}
    assert index == files_index(layout), "nothing was written to it after the index"


def test_a_continued_run_adds_to_its_log_and_a_finished_one_does_not(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="dies")
    layout = bench.run(retries=0, **ONE).layout
    first = layout.log.read_text(encoding="utf-8")
    bench.backend.script = lambda job_id, number: Script()
    bench.run(retries=0, **ONE)
    second = layout.log.read_text(encoding="utf-8")
    assert second.startswith(first) and second.count("run.start") == 2
    bench.run(retries=0, **ONE)
    assert layout.log.read_text(encoding="utf-8") == second
