"""Intervals stay within the ranges that tasks declare, in every table that shows one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.experiments import job, make_experiment
from tests.artifacts.samples import META
from trace_bench.analysis.bounds import cut, metric_range, normalised_range, of_difference, score_range
from trace_bench.analysis.comparison import compare
from trace_bench.analysis.comparison_groups import choose
from trace_bench.analysis.groups import jobs_of, summarise_groups
from trace_bench.analysis.standings import standings_of
from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta
from trace_bench.artifacts.writers import write_json
from trace_bench.audit.verify import audit
from trace_bench.records.reading import read_rows
from trace_bench.records.rebuild import rebuild
from trace_bench.records.tables import write_standings
from trace_bench.report import tables
from trace_bench.report.content import Report, read_source

TASKS = ("x", "y")
SHARES = (0.99, 0.6, 1.0)
"""Their t interval goes to 1.43."""
SHARE = {"direction": "maximize", "failure": 0.0, "range": [1.0, 0.0]}


def objective(**change: Any) -> ObjectiveSpec:
    return ObjectiveSpec.model_validate({"metrics": {"normalised": SHARE}, **change})


def run_of(folder: Path, spec: ObjectiveSpec) -> RunLayout:
    """One of two trainers: A has scores of 0, and the other `SHARES`."""
    rows = [job(task, seed, share) for task in TASKS for seed, share in enumerate(SHARES)]
    base = [job(task, seed, 0.0, trainer_id="A") for task in TASKS for seed in range(len(SHARES))]
    run = make_experiment(folder, "r", [*base, *rows])
    for row in [*base, *rows]:
        meta = JobMeta.model_validate({**META, "job_id": row.job_id, "objective": spec})
        write_json(run.job(row.job_id).meta, meta, durable=False)
    return run


def test_a_range_is_that_of_the_metric_whichever_way_it_points() -> None:
    assert normalised_range(objective()) == (0.0, 1.0) and normalised_range(None) is None
    assert score_range(objective()) is None, "the task's own score declares none"
    assert score_range(objective(score_key="normalised")) == (0.0, 1.0)
    assert score_range(objective(mode="weighted", weights={"normalised": 1.0})) is None
    gap = {"direction": "maximize", "failure": 0.0}
    assert normalised_range(objective(metrics={"normalised": SHARE, "gap": gap})) is None, "a gap can pass 1"
    assert metric_range(objective(metrics={"normalised": SHARE, "gap": gap}), "normalised") == (0.0, 1.0)


def test_an_interval_is_cut_at_the_mean_of_the_bounds_and_holds_its_mean() -> None:
    assert cut((-0.5, 1.5), 0.5, [(0.0, 1.0), (0.0, 2.0)]) == (0.0, 1.5)
    assert cut((-0.5, 1.5), 0.5, [(0.0, 1.0), None]) == (-0.5, 1.5)
    assert cut((0.9, 1.5), 1.2, [(0.0, 1.0)]) == (0.9, 1.2)
    assert cut(None, 0.5, [(0.0, 1.0)]) is None and of_difference((0.0, 2.0)) == (-2.0, 2.0)


def intervals_of_results(run: RunLayout) -> Iterator[tuple[float, float]]:
    for by in (["task_id", "trainer_id"], ["trainer_id"]):
        for group in summarise_groups(jobs_of(run), by).groups:
            found = (group.normalised, group.normalised_test, group.improvement, group.score, group.test)
            yield from (one.interval for one in found if one.interval is not None)


def test_results_stay_within_the_range(tmp_path: Path) -> None:
    ends = list(intervals_of_results(run_of(tmp_path, objective(score_key="normalised"))))
    assert max(high for _, high in ends) == 1.0 and min(low for low, _ in ends) >= -1.0
    unknown = run_of(tmp_path / "2", objective(metrics={}))
    assert max(high for _, high in intervals_of_results(unknown)) > 1.4


def test_the_report_stays_within_the_range(tmp_path: Path) -> None:
    report = Report.of([read_source(run_of(tmp_path, objective(score_key="normalised")))])
    ends = [text for text in tables._intervals(report).values() if text.startswith("[")]
    assert ends and all(float(text.strip("[]=").split(", ")[-1]) <= 1.0 for text in ends)


@pytest.mark.parametrize("metric", [None, "metric_test:normalised", "score_test"])
def test_a_difference_stays_within_what_the_range_allows(tmp_path: Path, metric: str | None) -> None:
    parts = choose([run_of(tmp_path, objective(score_key="normalised"))], [], "trainer", None)
    parts.sort(key=lambda part: part.name)
    (one,) = compare(parts, metric=metric).comparisons
    for task in one.tasks:
        assert task.effect.high == 1.0 and task.effect.low is not None and task.effect.low > 0
    unknown = choose([run_of(tmp_path / "2", objective(metrics={}))], [], "trainer", None)
    unknown.sort(key=lambda part: part.name)
    assert (compare(unknown).comparisons[0].tasks[0].effect.high or 0) > 1.4


def test_the_leaderboard_stays_within_the_range(tmp_path: Path) -> None:
    run = run_of(tmp_path, objective())
    rows = read_rows(run)
    whole = standings_of(rows).standings[0].test.interval
    write_standings(run, rows)
    assert whole is not None and whole[0] == whole[1], "two tasks of equal means"
    seeds = [row for row in rows if row.task_id.endswith("x")]
    (first, *_) = standings_of(seeds).standings
    assert first.test.interval is not None and first.test.interval[1] > 1.4
    write_standings(run, seeds)
    assert "1.4" not in run.leaderboard_md.read_text() and ", 1\\]" in run.leaderboard_md.read_text()


def test_a_gap_has_no_range_for_rebuild_either(copied: RunLayout) -> None:
    """The metric `normalised` of the same task has one, which ends at 1."""
    tasks = {yardstick["task_id"] for yardstick in json.loads(copied.yardsticks.read_text())["yardsticks"]}
    for place in copied.job_dirs():
        row = json.loads(place.results.read_text())
        if row["task_id"] in tasks:
            value = 0.99 if row["seed"] == 1 else 0.9
            row["metrics_test"] = row["metrics_best"] = {"normalised": value, "gap": value}
        place.results.write_text(json.dumps({**row, "integrity": "protected"}))
    write_standings(copied, read_rows(copied))
    assert "1.5" in copied.leaderboard_md.read_text()
    found = {file.path: file.found for file in rebuild(copied, check=True)}
    assert found["leaderboard.md"] == "same"


def test_a_leaderboard_that_is_rebuilt_or_audited_is_cut_at_the_same_range(copied: RunLayout) -> None:
    """The run's jobs are made protected, and two seeds have 0.9 and 0.99: Student's t goes to 1.52."""
    for place in copied.job_dirs():
        row, meta = (json.loads(path.read_text()) for path in (place.results, place.meta))
        if "normalised" in (row["metrics_test"] or {}):
            value = 0.99 if row["seed"] == 1 else 0.9
            row["metrics_test"] = row["metrics_best"] = {"normalised": value}
        meta["objective"]["metrics"].pop("gap", None)
        place.meta.write_text(json.dumps(meta))
        place.results.write_text(json.dumps({**row, "integrity": "protected"}))
    copied.yardsticks.unlink(missing_ok=True)
    found = {file.path: file.found for file in rebuild(copied)}
    assert found["leaderboard.md"] != "same"
    text = copied.leaderboard_md.read_text()
    assert ", 1\\]" in text and "1.5" not in text
    claims = {claim.claim: claim for claim in audit(copied).claims}
    assert claims["tables.leaderboard"].verdict == "verified", claims["tables.leaderboard"]
