"""Longest jobs first, and none that cannot end within the run's budget."""

from __future__ import annotations

import csv
import io
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, entries
from tests.execution.supervisor import Script
from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.run import Run
from trace_bench.planning import job_order
from trace_bench.planning.job_order import known_durations
from trace_bench.planning.plan import RunPlan


def slow_down(layout: RunLayout, **changes: Any) -> None:
    """Let the table at `layout` say something else of jobs, by (task, columns)."""
    rows = list(csv.DictReader(io.StringIO(layout.results_csv.read_text())))
    for row in rows:
        row.update({key: str(value(row) if callable(value) else value) for key, value in changes.items()})
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    layout.results_csv.write_text(out.getvalue())


def seconds_by_variant(**seconds: float) -> dict[str, Any]:
    return {"time_seconds": lambda row: seconds.get(row["variant"] + row["task_id"][9], 1.0)}


def order(plan: RunPlan) -> list[str]:
    return [plan.jobs[i].job_id for i in plan.order]


def test_jobs_that_took_longest_go_first(bench: Bench) -> None:
    first = bench.run()
    took = {row.job_id: float(n) for n, row in enumerate(first.rows, start=10)}
    slow_down(first.layout, time_seconds=lambda row: took[row["job_id"]] ** 2)
    bench.sources = "changed"  # so that they run again
    bench.backend.created.clear()
    second = bench.run(max_workers=1)
    assert second.run_id != first.run_id
    assert bench.backend.created == [row.job_id for row in reversed(first.rows)]
    assert [row.job_id for row in second.rows] == [row.job_id for row in first.rows], "the order of results is the same"
    assert [row.score_best for row in second.rows] == [row.score_best for row in first.rows]


def test_it_can_be_switched_off(bench: Bench) -> None:
    first = bench.run()
    slow_down(first.layout, time_seconds=lambda row: 1 + 100 * [r.job_id for r in first.rows].index(row["job_id"]))
    bench.sources = "changed"
    bench.backend.created.clear()
    config = {"max_workers": 1, "scheduling": {"longest_first": False}}
    plan = bench.plan(**config)
    bench.run(**config)
    assert bench.backend.created == order(plan) and not plan.durations


def test_seeds_share_what_is_known_and_unknown_jobs_count_as_the_mean(bench: Bench) -> None:
    first = bench.run(tasks=["internal:numeric_param"], seeds=[1])
    one = first.rows[0]
    slow_down(first.layout, time_seconds=lambda row: 100 if row["job_id"] == one.job_id else 10)
    plan = bench.plan(seeds=[1, 2])
    known = plan.durations
    same = [j.job_id for j in plan.jobs if (j.task_id, j.variant) == (one.task_id, one.variant)]
    assert {known[job_id].mean for job_id in same} == {100.0} and len(same) == 2
    assert len(known) == 4, "of the other task nothing is known"
    bench.sources = "changed"
    bench.backend.created.clear()
    bench.run(seeds=[1, 2], max_workers=1)
    ranks = [known[job_id].mean if job_id in known else 55.0 for job_id in bench.backend.created]
    assert ranks == [100.0, 100.0, 55.0, 55.0, 55.0, 55.0, 10.0, 10.0]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"}, {"cut_by_run_budget": "true"}, {"llm_reused": 1}, {"llm_cached": 2}, {"model": "another"},
        {"stop_reason": "interrupted"}, {"time_seconds": "nan"}, {"time_seconds": "-1"}, {"time_seconds": ""},
        {"time_seconds": "x"}, {"resolved_trainer_kwargs": "{"}, {"resolved_trainer_kwargs": "{}"},
        {"eval_kwargs": '{"n": 1}'},
    ],
)  # fmt: skip
def test_rows_that_do_not_tell_are_left_out(bench: Bench, change: dict[str, Any]) -> None:
    first = bench.run(seeds=[1])
    assert len(bench.plan(seeds=[2]).durations) == 4
    slow_down(first.layout, **change)
    assert not bench.plan(seeds=[2]).durations


@pytest.mark.parametrize("left", [b"", b"\0\0", b"a,b\n1,2\n", "task_id".encode("utf-16"), b'"' * 3])
def test_files_that_are_no_tables_say_nothing(bench: Bench, left: bytes) -> None:
    first = bench.run()
    first.layout.results_csv.write_bytes(left)
    (bench.folder / "runs" / "stray").touch()
    assert not bench.plan(seeds=[2]).durations


def test_the_newest_runs_are_read_first_and_no_more_than_is_allowed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = bench.run(seeds=[1]), bench.run(seeds=[3])
    slow_down(old.layout, time_seconds=50)
    slow_down(new.layout, time_seconds=70)
    os.utime(old.layout.results_csv, (1e9, 1e9))
    means = {known.mean for known in bench.plan(seeds=[2]).durations.values()}
    shortest = {known.shortest for known in bench.plan(seeds=[2]).durations.values()}
    assert means == {60.0} and shortest == {50.0}
    monkeypatch.setattr(job_order, "RUNS", 1)
    assert {known.mean for known in bench.plan(seeds=[2]).durations.values()} == {70.0}
    monkeypatch.setattr(job_order, "BYTES", 0)
    monkeypatch.setattr(job_order, "BYTES_PER_JOB", new.layout.results_csv.stat().st_size // 4 - 10)
    assert len(bench.plan(seeds=[2]).durations) == 3, "a line that is cut off is no line"


def test_reading_costs_little(bench: Bench) -> None:
    """Three hundred runs of forty jobs each, for a plan of four jobs."""
    text = bench.run().layout.results_csv.read_text()
    head, *lines = text.splitlines(keepends=True)
    for number in range(300):
        folder = bench.folder / "runs" / f"run{number}"
        folder.mkdir()
        (folder / "results.csv").write_text(head + "".join(lines * 10))
    jobs = [planned.job for planned in bench.plan(seeds=[2]).jobs]
    began = time.process_time()
    assert len(known_durations(bench.folder / "runs", jobs)) == 4
    assert time.process_time() - began < 0.1, "a slow machine; 0.03 on a quick one"


# ------------------------------------------------------------------------------------------------ within the budget


def test_what_cannot_end_within_the_budget_does_not_start(bench: Bench) -> None:
    first = bench.run()
    slow, quick = first.rows[0], first.rows[1:]
    slow_down(first.layout, time_seconds=lambda row: 500 if row["job_id"] == slow.job_id else 0.01)
    bench.sources = "changed"
    result = bench.run(budget={"run": {"seconds": 100}})
    assert [row.job_id for row in result.rows if row.status == "ok"] == [row.job_id for row in quick]
    (skipped,) = [row for row in result.rows if row.status == "skipped"]
    assert skipped.job_id == slow.job_id
    assert skipped.feedback.startswith("the run's budget of 100 seconds has ")
    assert skipped.feedback.endswith(" left, and this job took 500.0 or more in earlier runs")
    assert entries(result.layout)[slow.job_id]["status"] == "not_executed"
    assert bench.run(budget={"run": {"seconds": 1000}}).ok, "a larger budget continues the run"


def test_a_job_that_goes_on_from_a_checkpoint_is_not_measured_by_whole_ones(bench: Bench) -> None:
    first = bench.run()
    slow_down(first.layout, time_seconds=500)
    bench.sources = "changed"
    plan = bench.records(budget={"run": {"seconds": 100}})
    checkpoint = plan.layout.job(plan.jobs[0].job_id).make().checkpoint
    checkpoint.touch()
    result = Run(bench.plan(budget={"run": {"seconds": 100}})).execute()
    assert [row.job_id for row in result.rows if row.status == "ok"] == [plan.jobs[0].job_id]


def test_the_shortest_run_counts_and_it_can_be_switched_off(bench: Bench) -> None:
    first, second = bench.run(), bench.run(seeds=[7])
    slow_down(first.layout, time_seconds=500)
    slow_down(second.layout, time_seconds=0.5)
    bench.sources = "changed"
    assert bench.run(budget={"run": {"seconds": 100}}).ok
    slow_down(second.layout, time_seconds=300)
    bench.sources = "changed again"
    runs = bench.folder / "runs"
    for layout in (RunLayout(folder) for folder in runs.iterdir() if folder.name not in (first.run_id, second.run_id)):
        layout.results_csv.unlink()
    config = {"budget": {"run": {"seconds": 100}}}
    assert bench.run(**config, scheduling={"within_budget": False}).ok


def test_what_runs_is_not_cut_because_it_takes_longer_than_was_known(bench: Bench) -> None:
    slow_down(bench.run(seeds=[9]).layout, time_seconds=0.01)
    bench.backend.script = lambda job_id, number: Script(seconds=0.3)
    result = bench.run(budget={"run": {"seconds": 30}})
    assert result.ok and not any(row.cut_by_run_budget for row in result.rows)


def test_a_plan_of_many_jobs_waits_less_than_a_second(bench: Bench, tmp_path: Path) -> None:
    rng = random.Random(1)
    text = bench.run().layout.results_csv.read_text()
    head, *lines = text.splitlines(keepends=True)
    for number in range(20):
        folder = bench.folder / "runs" / f"big{number}"
        folder.mkdir()
        (folder / "results.csv").write_text(head + "".join(rng.choices(lines, k=2000)))
    jobs = [planned.job for planned in bench.plan(seeds=list(range(100, 2600))).jobs]
    assert len(jobs) == 10_000
    began = time.process_time()
    assert len(known_durations(bench.folder / "runs", jobs)) == 10_000
    assert time.process_time() - began < 1.0
