"""Speed-ups over the problems of a level."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from trace_bench.results.kernels import records, speedups, table


def jobs(*rows: tuple[str, str, float, float]) -> pd.DataFrame:
    """Of task, trainer, held-out and validation speed-up."""
    columns = ("task_id", "trainer_id", "score_test", "score_best")
    frame = pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])
    frame["suite"] = frame["task_id"].str.partition(":")[0]
    return frame.assign(variant="base", resolved_optimizer="OptoPrime", model="stub")


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
    first, second, third = speedups(frame, [True] * len(frame))
    assert (first.level, first.keys[0], first.problems) == ("level1", "One", 3)
    assert {p: found.mean for p, found in first.fast.items()} == pytest.approx({0: 2 / 3, 1: 1.5 / 3, 2: 1.5 / 3})
    assert first.geometric_mean.mean == pytest.approx(math.sqrt(2.0 * 2.5))
    low, high = first.fast[1].interval or (0.0, 0.0)
    assert low == 0.0 and high == 1.0, "no share is below 0 or above 1"
    assert (second.level, third.keys[0]) == ("level2", "Two")
    assert third.fast[0].mean == 1 and third.fast[1].mean == 0


def test_what_does_not_count_is_left_out_and_no_kernel_is_no_table() -> None:
    frame = jobs(("kernelbench:level1/a", "One", 4.0, 4.0), ("llm4ad:x", "One", 1.0, 1.0))
    assert speedups(frame, [False, True]) == []


def test_the_interval_of_the_geometric_mean_holds_it() -> None:
    frame = jobs(*((f"kernelbench:level1/{i}", "One", 1.0 + i / 4, 1.0) for i in range(8)))
    (found,) = speedups(frame, [True] * len(frame))
    low, high = found.geometric_mean.interval or (0.0, 0.0)
    assert 1 < low < (found.geometric_mean.mean or 0) < high
    shown = table([found])
    assert shown.header[0] == "level" and len(shown.rows[0]) == len(shown.header)
    (told,) = records([found])
    assert told["fast_1"]["mean"] == 7 / 8 and told["geometric_mean"]["interval"] == (low, high)
