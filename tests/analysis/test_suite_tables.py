"""Tables of suites, by the example of kernels: speed-ups over the problems of a level."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.analysis.folders import make_run, row
from trace_bench.analysis.suite_tables import TaskStatistics, suite_tables
from trace_bench.artifacts.records import Results
from trace_bench.cli.commands.results import results as results_command
from trace_bench.report import Report, markdown, page, read_source
from trace_bench.suites.kernelbench.speedups import Speedups, impossible
from trace_bench.suites.kernelbench.speedups import speedups as speedups_of
from trace_bench.suites.tables import SuiteTable

HERE, THERE = "Xeon · 2 CPUs · torch 2.13.0+cpu", "EPYC · 2 CPUs · torch 2.13.0+cpu"


def jobs(*rows: tuple[str, str, float, float]) -> pd.DataFrame:
    """Of task, trainer, held-out and validation speed-up."""
    columns = ("task_id", "trainer_id", "score_test", "score_best")
    frame = pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])
    frame["suite"] = frame["task_id"].str.partition(":")[0]
    return frame.assign(variant="base", resolved_optimizer="OptoPrime", model="stub", hardware=HERE, job_id=frame.index)


def speedups(frame: pd.DataFrame) -> list[Speedups]:
    return speedups_of(frame[frame["suite"] == "kernelbench"], TaskStatistics())


def table(frame: pd.DataFrame) -> SuiteTable:
    (found,) = suite_tables(frame, [True] * len(frame))
    return found


def kernel(number: int, task: str, speedup: float, **change: Any) -> Results:
    return row(number, **{"task_id": f"kernelbench:{task}", "suite": "kernelbench", "score_best": 1.5 * speedup,
                          "score_test": speedup, "hardware": HERE, **change})  # fmt: skip


def test_problems_weigh_the_same_and_held_out_scores_go_first() -> None:
    frame = jobs(
        ("kernelbench:level1/a", "One", 4.0, 9.0),
        ("kernelbench:level1/a", "One", 1.0, 9.0),
        ("kernelbench:level1/b", "One", math.nan, 2.5),
        ("kernelbench:level1/c", "One", 0.0, 9.0),
        ("kernelbench:level2/a", "One", 3.0, 3.0),
        ("kernelbench:level1/a", "Two", 0.5, 0.5),
        ("llm4ad:circle_packing", "One", 2.0, 2.0),
    )
    first, second, third = speedups(frame)
    assert (first.level, first.keys["trainer"], first.problems) == ("level1", "One", 3)
    assert {p: found.mean for p, found in first.fast.items()} == pytest.approx({0: 2 / 3, 1: 1.5 / 3, 2: 1.5 / 3})
    assert first.geometric_mean.mean == pytest.approx(math.sqrt(2.0 * 2.5))
    low, high = first.fast[1].interval or (0.0, 0.0)
    assert low == 0.0 and high == 1.0, "no share is below 0 or above 1"
    assert (second.level, third.keys["trainer"]) == ("level2", "Two")
    assert third.fast[0].mean == 1 and third.fast[1].mean == 0


def test_what_does_not_count_is_left_out_and_no_kernel_is_no_table() -> None:
    frame = jobs(("kernelbench:level1/a", "One", 4.0, 4.0), ("llm4ad:x", "One", 1.0, 1.0))
    assert suite_tables(frame, [False, True]) == []


def test_the_interval_of_the_geometric_mean_holds_it() -> None:
    frame = jobs(*((f"kernelbench:level1/{i}", "One", 1.0 + i / 4, 1.0) for i in range(8)))
    (found,) = speedups(frame)
    low, high = found.geometric_mean.interval or (0.0, 0.0)
    assert 1 < low < (found.geometric_mean.mean or 0) < high
    shown = table(frame)
    assert shown.header[0] == "level" and len(shown.rows[0]) == len(shown.header)
    (told,) = shown.fields["kernels"]
    assert told["fast_1"]["mean"] == 7 / 8 and told["geometric_mean"]["interval"] == (low, high)


def test_speed_ups_of_different_hardware_are_in_no_common_mean() -> None:
    frame = jobs(*((f"kernelbench:level1/{name}", "One", 2.0, 2.0) for name in "abcd"))
    frame.loc[2:, "hardware"] = THERE
    frame.loc[2:, "score_test"] = 8.0
    found = speedups(frame)
    assert [(one.keys["hardware"], one.geometric_mean.mean) for one in found] == [
        (HERE, pytest.approx(2.0)), (THERE, pytest.approx(8.0))
    ]  # fmt: skip
    shown = table(frame)
    assert [cells[shown.header.index("hardware")] for cells in shown.rows] == [HERE, THERE]
    assert [one["hardware"] for one in shown.fields["kernels"]] == [HERE, THERE]


@pytest.mark.parametrize(("held_out", "selection", "left_out"), [(1.0, 0.0, True), (0.0, 1.0, False)])
def test_a_speed_up_that_the_hardware_does_not_allow_counts_nowhere_and_is_listed(
    held_out: float, selection: float, left_out: bool
) -> None:
    frame = jobs(("kernelbench:level1/a", "One", 2.0, 2.0), ("kernelbench:level1/b", "One", 900.0, 900.0))
    frame["metric_test:impossible"] = [0.0, held_out]
    frame["metric_best:impossible"] = [0.0, selection]
    (found,) = speedups(frame)
    assert found.problems == (1 if left_out else 2), "the speed-up that counts is the held-out one"
    assert impossible(frame) == (["1"] if left_out else [])
    assert [text.rpartition(" allow: ")[2] for text in table(frame).remarks] == (["job 1."] if left_out else [])
    (counted,) = suite_tables(frame, [True, False])
    assert not counted.remarks, "a job that does not count is listed elsewhere"


def test_results_and_report_show_each_hardware_apart_and_name_what_is_impossible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = {"metrics_test": {"score": 900.0, "impossible": 1.0}, "metrics_best": {"score": 900.0, "impossible": 0.0}}
    rows = [
        kernel(0, "level1/a", 2.0), kernel(1, "level1/a", 8.0, hardware=THERE), kernel(2, "level1/b", 900.0, **mark)
    ]  # fmt: skip
    run = make_run(tmp_path, rows=rows)

    def told(form: str) -> str:
        results_command(
            run.run_id, runs_dir=tmp_path, by="task,trainer", where=None, form=form, unprotected=False, level=0.95
        )
        return capsys.readouterr().out

    found = json.loads(told("json"))
    assert [(one["hardware"], one["geometric_mean"]["mean"]) for one in found["kernels"]] == [
        (HERE, pytest.approx(2.0)), (THERE, pytest.approx(8.0))
    ]  # fmt: skip
    assert found["kernels_impossible"] == [rows[2].job_id]
    assert len([group for group in found["groups"] if group["keys"]["task"].endswith("a")]) == 2
    assert rows[2].job_id in told("table") and "different hardware" in told("table")
    report = Report.of([read_source(run)])
    for text in (markdown(report), page(report)):
        assert "Kernels" in text and "geometric mean" in text and "EPYC" in text and rows[2].job_id in text
    assert [name for name in report.tasks if name.endswith(THERE)], "tasks of a report are those of one hardware"


def test_a_run_without_kernels_has_no_table_of_them(tmp_path: Path) -> None:
    report = Report.of([read_source(make_run(tmp_path, rows=[row(0, score_best=1.0)]))])
    assert "Kernels" not in markdown(report) and "fast_1" not in page(report)
