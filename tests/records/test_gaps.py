"""Gaps: 0 is the template and 1 the yardstick, on the same instances."""

from __future__ import annotations

from typing import Any

import pytest

from tests.artifacts.samples import RESULTS
from trace_bench.artifacts.derived import Yardstick
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import Results
from trace_bench.records.gaps import Gaps, gap, sentences

KWARGS = {"n_instance": 2}


def yardstick(seed: int = 7, **fields: Any) -> Yardstick:
    made = {
        "task_id": "llm4ad:a", "eval_kwargs": KWARGS, "seed": seed, "direction": "minimize",
        "program": "reference.py", "identity": "0" * 64,
        "reference": {"validate": {"v-0": 10.0, "v-1": 6.0}, "test": {"t-0": 4.0}},
    }  # fmt: skip
    return Yardstick(**{**made, **fields})


def state(validate: list[float], test: list[float], metric: bool = False) -> dict[str, Any]:
    examples = [{"split": "validate", "id": f"v-{n}", "score": score} for n, score in enumerate(validate)]
    examples += [{"split": "test", "id": f"t-{n}", "score": score} for n, score in enumerate(test)]
    for example in examples if metric else ():
        example |= {"metrics": {"score": example["score"]}, "score": -1.0}
    return {"validate": sum(validate) / 2, "test": sum(test), "examples": examples}


def result(metric: bool = False) -> WorkerResult:
    template, best = state([20.0, 8.0], [9.0], metric), state([15.0, 8.0], [3.0], metric)
    return WorkerResult(status="ok", scores={"initial": template, "final": template, "best": best})  # type: ignore[arg-type]


def row(seed: int = 7, **fields: Any) -> Results:
    known = {"task_id": "llm4ad:a", "eval_kwargs": KWARGS, "seed": seed, "score_initial": 14.0, "score_best": 11.5}
    return Results.model_validate({**RESULTS, **known, "metrics_best": {"normalised": 0.5}, **fields})


@pytest.mark.parametrize("metric", [False, True], ids=["score", "score among metrics of another objective"])
def test_a_row_gets_the_gap_of_each_state_and_split(metric: bool) -> None:
    made = Gaps.of([yardstick()]).put(row(), result(metric))
    assert made.metrics_initial["gap"] == made.metrics_final["gap"] == 0.0
    assert made.metrics_best == {"normalised": 0.5, "gap": 5 / 12}
    assert made.metrics_test["gap"] == 6 / 5, "beyond the reference"


def test_a_best_known_score_goes_before_the_reference() -> None:
    known = yardstick(best_known={"validate": {"v-1": 4.0}})
    assert Gaps.of([known]).put(row(), result()).metrics_best["gap"] == 5 / 14
    assert sentences([known]) == [
        "gap: 0 is the template, 1 is the best known score (1 of 3 instances), else the task's reference program on "
        "the same instances."
    ]


@pytest.mark.parametrize(
    ("scores", "template", "best", "found"),
    [
        ([1.7e308] * 3, [1.0] * 3, [2.0] * 3, 1.7e308),
        ([1.7e308] * 2, [-1.7e308] * 2, [1.7e308] * 2, 1.0),
        ([0.0], [-1.7e308], [1.7e308], 0.5),
        ([1e308], [1.0], [1.0000000000000002], None),
        ([1.0], [1e308] * 1, [-1e308], None),
    ],
)
def test_a_gap_of_huge_scores_is_a_finite_number_or_none(
    scores: list[float], template: list[float], best: list[float], found: float | None
) -> None:
    assert gap(scores, template, best, "maximize") == (found and pytest.approx(found))


def test_where_all_best_known_scores_are_known_the_reference_is_not_named() -> None:
    known = yardstick(best_known={"validate": {"v-0": 9.0, "v-1": 4.0}, "test": {"t-0": 2.0}})
    assert sentences([known]) == ["gap: 0 is the template, 1 is the best known score."]


def test_a_task_with_a_failed_yardstick_has_no_gap_and_says_why() -> None:
    failed = yardstick(8, reference={}, problem="its reference program fails on v-0: it divides by zero")
    gaps = Gaps.of([yardstick(), failed])
    assert gaps.put(row(), result()) == row() and gaps.put(row(8), result()) == row(8), "a mean has one metric"
    assert sentences([failed]) == [
        "llm4ad:a has no gap: its reference program fails on v-0: it divides by zero (seed 8)."
    ]


def test_withheld_scores_and_other_problems_get_none() -> None:
    gaps = Gaps.of([yardstick()])
    for other in (row(8), row(eval_kwargs={"n_instance": 3}), row(task_id="llm4ad:b"), row(score_initial=None)):
        assert gaps.put(other, result()) == other
    assert gaps.put(row(), None) == row()


def test_a_yardstick_that_is_no_better_than_the_template_measures_nothing() -> None:
    equal = yardstick(reference={"validate": {"v-0": 20.0, "v-1": 8.0}, "test": {"t-0": 9.5}})
    made = Gaps.of([equal]).put(row(), result())
    assert "gap" not in made.metrics_best and "gap" not in made.metrics_test


def test_the_template_is_0_to_the_last_bit_and_never_minus_0() -> None:
    scores = [0.1, 0.7, 1e17, 0.3]
    best = [score / 3 for score in scores]
    assert str(gap(scores, scores, best, "minimize")) == "0.0"
    assert gap(best, scores, best, "minimize") == 1.0
    assert gap(best, scores, best, "maximize") is None
