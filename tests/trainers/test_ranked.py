"""How a population ranks its candidates, by the objective of the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import MemoryContext
from trace_bench.trainers.base import Budget, Rollout, Search, Step
from trace_bench.trainers.population import Population
from trace_bench.worker.problem import Parameter, Problem, examples, with_objective

METRICS = {name: {"direction": "minimize", "failure": 9.0} for name in ("loss", "size")}
POINTS = {"seed": (5, 5), "a": (1, 6), "b": (4, 4), "c": (6, 1), "d": (6, 6)}


def population(**given: Any) -> Population:
    """One whose candidates have the losses and sizes of `POINTS`, and a score that is their sum, weighted."""
    objective = {
        "mode": "pareto", "score_key": "score", "weights": {"loss": 1.0, "size": 1.0}, "metrics": METRICS,
        "pareto_metrics": ["loss", "size"], "tie_break": "weighted", "missing_value": None, "seed": None, **given,
    }  # fmt: skip
    problem = with_objective(
        Problem(
            parameters=(Parameter("x", 0.0, "float"),), guide=lambda *_: (0.0, ""), train=examples(["one"]),
            objective="o", direction="maximize", failure_score=0.0,
        ),
        objective,
    )  # fmt: skip
    context = MemoryContext(problem, None, lambda *_: "")  # type: ignore[arg-type]

    def rollout(name: str) -> Rollout:
        metrics = {"score": 0.0, **dict(zip(("loss", "size"), map(float, POINTS[name]), strict=True))}
        return Rollout("one", problem.comparison.scalar(metrics, problem.metrics), "", metrics=metrics)

    start = Step(0, "seed", (), {"x": 0.0}, (rollout("seed"),), "train")
    search = Search(
        problem=problem, params={}, seed=1, budget=Budget(), start=start, evaluate=context.evaluate, proposer=None,
        chat=context.chat, embed=context.embed, log=context, programs=None, extra_dir=context.extra_dir,  # type: ignore[arg-type]
    )  # fmt: skip
    made = Population(search)
    for number, name in enumerate([*POINTS][1:], start=1):
        child = made.add(name, {"x": float(number)}, (made.seed,))
        assert child is not None
        child.add((rollout(name),), "train", made.orientation)
    return made


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ({"mode": "weighted"}, ["c", "a", "b", "seed", "d"]),
        # a, b and c are dominated by none; the seed by b; d by all.
        ({}, ["a", "c", "b", "seed", "d"]),
        ({"weights": {"loss": 1.0, "size": 3.0}}, ["c", "b", "a", "seed", "d"]),
        ({"tie_break": "lexicographic"}, ["a", "b", "c", "seed", "d"]),
        ({"tie_break": "lexicographic", "pareto_metrics": ["size", "loss"]}, ["c", "b", "a", "seed", "d"]),
    ],
)
def test_candidates_are_ranked_by_the_objective(given: dict[str, Any], order: list[str]) -> None:
    made = population(**given)
    assert [c.id for c in made.ranked(made)] == order and made.best().id == order[0]


def test_lots_are_drawn_within_a_front_only() -> None:
    made = [population(tie_break="random_seeded", seed=seed) for seed in range(30)]
    orders = {tuple(c.id for c in one.ranked(one)) for one in made}
    assert {order[3:] for order in orders} == {("seed", "d")} and len(orders) == 6


def test_a_candidate_without_scores_is_in_no_ranking() -> None:
    made = population()
    made.add("new", {"x": 9.0}, (made.seed,))
    assert "new" not in [c.id for c in made.ranked(made)]
