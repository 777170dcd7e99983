"""Which state a job saves as its best, by the objective of its run, and what is scored and written of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import run
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.records.integrity import integrity_report

METRICS = {
    "loss": {"direction": "minimize", "failure": 99.0, "reference": None, "range": None},
    "size": {"direction": "minimize", "failure": 99.0, "reference": None, "range": None},
}
CODE = """
POINTS = {0.0: (5, 5), 1.0: (1, 6), 2.0: (4, 4), 3.0: (6, 1), 4.0: (1, 6), 5.0: (0, 6)}

def build(context):
    def guide(query, response, reference):
        loss, size = POINTS[response]
        return -response, f"at {response}", {"loss": loss, "size": size}
    return problem(guide)

class Trainer(Trainer):
    def train(self, problem, params, context):
        for i, x in enumerate(WALK):
            state = {"x": x}
            rollouts = context.evaluate(state, [0], "train")
            record(context, step=i, candidate=f"c{i}", state=state, rollouts=rollouts, split="train")
        return {"x": WALK[-1]}
"""
WALK = (0.0, 1.0, 2.0, 3.0, 4.0)


def objective(**given: Any) -> dict[str, Any]:
    return {
        "mode": "scalar", "score_key": "score", "score_direction": "maximize", "weights": {}, "metrics": METRICS,
        "pareto_metrics": ["loss", "size"], "references": {}, "tie_break": "weighted", "missing_value": None,
        "seed": None, **given,
    }  # fmt: skip


BOTH = {"loss": 1.0, "size": 1.0}
PARETO = {"mode": "pareto", "weights": {"loss": 1.0, "size": 0.9}}
CASES: list[tuple[dict[str, Any], tuple[float, ...], float, float]] = [
    ({}, WALK, 0.0, 0.0),
    ({"score_key": "loss"}, WALK, 1.0, 1.0),
    ({"mode": "weighted", "weights": BOTH}, WALK, 1.0, -7.0),
    ({"mode": "weighted", "weights": {"loss": 0.0, "size": 2.0}}, WALK, 3.0, -2.0),
    (PARETO, WALK, 1.0, -6.4),
    ({**PARETO, "tie_break": "lexicographic"}, WALK, 1.0, -6.4),
    ({**PARETO, "tie_break": "lexicographic", "pareto_metrics": ["size", "loss"]}, WALK, 3.0, -6.9),
]


@pytest.mark.parametrize(("given", "walk", "best", "score"), CASES)
def test_the_best_state_is_the_best_by_the_objective(
    given: dict[str, Any], walk: tuple[float, ...], best: float, score: float, tmp_path: Path
) -> None:
    got = run(tmp_path, CODE.replace("WALK", repr(walk)), over={"objective": objective(**given)})
    assert got.result is not None and got.result["status"] == "ok", got.result
    result = WorkerResult.model_validate(got.result)
    official = result.scores.best
    assert official is not None and official.train == pytest.approx(score)
    loss, size = {0.0: (5, 5), 1.0: (1, 6), 3.0: (6, 1)}[best]
    assert official.metrics == {"train": {"score": -best, "loss": loss, "size": size}}
    assert official.examples[0].metrics == official.metrics["train"]
    report = integrity_report(result)
    assert report.flags == () and report.claims["best"].score == official.train == report.found["best"]
    lines = got.history
    assert [line["metrics"]["loss"] for line in lines] == [5, 1, 4, 6, 1] and all(line["comparable"] for line in lines)
    assert lines[-1]["best_score"] == official.train


def test_a_state_that_takes_the_place_of_the_best_may_be_an_earlier_one(tmp_path: Path) -> None:
    # The lots of 1, 2, 3 are such that 1 leads 3 and 3 leads 5: when 5 dominates 1, the best becomes 3 again.
    walk = (1.0, 3.0, 5.0)
    for seed in range(200):
        lots = [random_lot(seed, number) for number in range(3)]
        if lots[0] > lots[1] > lots[2]:
            break
    given = {**PARETO, "tie_break": "random_seeded", "seed": seed}
    got = run(tmp_path, CODE.replace("WALK", repr(walk)), over={"objective": objective(**given)})
    assert got.result is not None and got.result["status"] == "ok", got.result
    assert got.states["best"] == {"x": 3.0}
    assert integrity_report(WorkerResult.model_validate(got.result)).flags == ()


def random_lot(seed: int, number: int) -> float:
    import random

    return random.Random(f"trace-bench/pareto/{seed}/{number}").random()


def test_a_step_without_metrics_is_the_trainers_fault(tmp_path: Path) -> None:
    more = """
            bare = [Rollout(r.example_id, 1.0, "") for r in rollouts]
            record(context, step=9, candidate="bare", state=state, rollouts=bare, split="train")
        return"""
    code = CODE.replace("\n        return {", more + " {").replace("WALK", "(2.0,)")
    got = run(tmp_path, code, over={"objective": objective(**PARETO)})
    assert got.result is not None and got.result["failure"]["boundary"] == "trainer"
    assert "lack metrics of the task" in got.result["failure"]["message"]


def test_metrics_that_a_trainer_forges_count_for_nothing(tmp_path: Path) -> None:
    more = """
            import dataclasses
            forged = [dataclasses.replace(r, score=99.0, metrics={"score": 99.0, "loss": -99.0, "size": -99.0})
                      for r in rollouts]
            record(context, step=i, candidate="liar", state=state, rollouts=forged, split="train")
        return"""
    code = CODE.replace("\n        return {", more + " {").replace("WALK", "(2.0,)")
    got = run(tmp_path, code, over={"objective": objective(mode="weighted", weights=BOTH)})
    assert got.result is not None and got.result["status"] == "ok", got.result
    result = WorkerResult.model_validate(got.result)
    assert result.scores.best is not None and result.scores.best.train == -8.0
    assert result.scores.best.metrics["train"]["loss"] == 4.0
    assert "claim_differs" in integrity_report(result).flags
