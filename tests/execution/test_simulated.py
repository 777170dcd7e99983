"""The simulated backend is honest: it speaks the protocol, leaves the files, and counts right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.execution.bench import Bench, read
from tests.execution.supervisor import Script, scores_of
from trace_bench.artifacts.collector import collect
from trace_bench.errors import CollectError
from trace_bench.sandbox.errors import EngineGone, SandboxRemoved


def test_a_whole_job_leaves_what_a_worker_leaves(bench: Bench, tmp_path: Path) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=3)
    plan = bench.records()
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    bench.converse(plan, planned, sandbox)
    assert sandbox.status() == "exited"
    ended = sandbox.wait(1)
    assert ended is not None and ended.code == 0
    collected = collect(sandbox.collect(), tmp_path / "out")
    assert collected.result is not None and collected.states is not None
    initial, best = scores_of(planned.job_id)
    scores = collected.result.scores
    assert scores.initial is not None and scores.best is not None
    assert (scores.initial.selection, scores.best.selection) == (initial, best)
    assert collected.states.best == {"x": best}
    assert (collected.history, collected.result.llm_calls, collected.torn) == (3, 3, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "events.jsonl", "extra", "result.json", "state_history.jsonl", "states.json", "stdout.log",
    ]  # fmt: skip


@pytest.mark.parametrize("until", ["job.start", "build.end", "history", "train.end"])
def test_it_goes_on_with_another_controller_wherever_the_first_one_left(bench: Bench, until: str) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=2)
    plan = bench.records()
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    bench.converse(plan, planned, sandbox, until=until)
    assert sandbox.status() == "running"
    row = {row.job_id: row for row in bench.run().rows}[planned.job_id]
    assert (row.status, row.score_best, row.llm_calls) == ("ok", scores_of(planned.job_id)[1], 2)
    (attempt,) = read(plan.layout.job(planned.job_id).meta)["attempts"][-1:]
    assert attempt["sandbox_id"] == sandbox.id


def test_it_counts(bench: Bench) -> None:
    plan = bench.records()
    one, other = (bench.sandbox(plan, planned, start=False) for planned in plan.jobs[:2])
    assert (one.status(), bench.backend.alive, bench.backend.most_starting) == ("created", 2, 2)
    with pytest.raises(SandboxRemoved):
        one.write(b"x")
    one.start()
    assert one.read(0.0), "its first words"
    one.remove()
    one.remove()
    other.remove()
    assert (one.status(), bench.backend.alive, bench.backend.removed, bench.backend.most_alive) == ("removed", 0, 2, 2)
    assert bench.backend.created == [planned.job_id for planned in plan.jobs[:2]]
    third = bench.sandbox(plan, plan.jobs[2])
    assert (third.read(0.0) or b"") and bench.backend.most_starting == 2
    assert [s.id for s in bench.backend.find(third.request.labels)] == [third.id]
    with pytest.raises(SandboxRemoved):
        list(one.collect())


def test_it_dies_as_it_is_told_to(bench: Bench, tmp_path: Path) -> None:
    scripts = {1: Script(ends="dies starting"), 2: Script(failure="damaged"), 3: Script(ends="hangs")}
    bench.backend.script = lambda job_id, number: scripts[number]
    plan = bench.records()
    planned = plan.jobs[0]
    first, second, third = (bench.sandbox(plan, planned) for _ in scripts)
    while first.read(0.1):
        pass
    died = first.wait(0)
    assert died is not None and died.code == 70
    bench.converse(plan, planned, second)
    with pytest.raises(CollectError, match=r"result\.json"):
        collect(second.collect(), tmp_path / "second")
    bench.converse(plan, planned, third, until="history")
    third.kill()
    assert third.read(0.0) in (b"",) or third.read(0.0) == b""
    assert collect(third.collect(), tmp_path / "third").result is None


def test_its_engine_goes_and_comes_back(bench: Bench) -> None:
    plan = bench.records()
    sandbox = bench.sandbox(plan, plan.jobs[0])
    bench.backend.go(0.05)
    for call in (sandbox.kill, sandbox.remove, sandbox.status, lambda: list(sandbox.collect()), sandbox.attach):
        with pytest.raises(EngineGone):
            call()
    with pytest.raises(EngineGone):
        bench.backend.find({})
    time.sleep(0.06)
    assert sandbox.status() == "running"
