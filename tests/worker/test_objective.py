"""What states are compared by: the number that a search sees, and who dominates whom."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.worker.evaluate import evaluate_example, mean_metrics, mean_score
from trace_bench.worker.minibatch_graph import MinibatchGraph
from trace_bench.worker.objective import Front, dominates, fronts, oriented_point, ranking
from trace_bench.worker.problem import CandidateError, Parameter, Problem, ProblemError, examples, with_objective

LOSS_AND_HITS: dict[str, Any] = {
    "loss": {"direction": "minimize", "failure": 50.0, "reference": None, "range": [40.0, 0.0]},
    "hits": {"direction": "maximize", "failure": -1.0, "reference": None, "range": [0.0, 10.0]},
}


def spec(**given: Any) -> dict[str, Any]:
    """An objective as ``job.json`` has it."""
    return {
        "mode": "scalar", "score_key": "score", "weights": {}, "metrics": LOSS_AND_HITS,
        "pareto_metrics": ["loss", "hits"], "tie_break": "weighted", "missing_value": None, "seed": None, **given,
    }  # fmt: skip


def problem(guide: Any = None, **given: Any) -> Problem:
    plain = Problem(
        parameters=(Parameter("x", 0.0, "float"),),
        guide=guide or (lambda query, response, reference: (7.0, "fine", {"loss": 3.0, "hits": 4.0})),
        train=examples(["only"]),
        objective="Do well.",
        direction="minimize",
        failure_score=99.0,
        score_range=(99.0, 0.0),
    )
    return with_objective(plain, spec(**given))


def rollout(made: Problem) -> Any:
    return evaluate_example(made, {}, made.train[0], None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "score", "direction", "failure", "score_range"),
    [
        ({}, 7.0, "minimize", 99.0, (99.0, 0.0)),
        ({"score_key": "hits"}, 4.0, "maximize", -1.0, (0.0, 10.0)),
        ({"score_key": "loss"}, 3.0, "minimize", 50.0, (40.0, 0.0)),
        ({"mode": "weighted", "weights": {"loss": 2.0, "hits": 0.5}}, -4.0, "maximize", -100.5, (-80.0, 5.0)),
        ({"mode": "weighted", "weights": {"hits": 1.0, "loss": 0.0}}, 4.0, "maximize", -1.0, (0.0, 10.0)),
        ({"mode": "weighted", "weights": {"score": 1.0, "hits": 1.0}}, -3.0, "maximize", -100.0, (-99.0, 10.0)),
        ({"mode": "pareto", "weights": {"loss": 1.0, "hits": 1.0}}, 1.0, "maximize", -51.0, (-40.0, 10.0)),
    ],
)
def test_the_score_is_what_the_objective_makes_of_the_metrics(
    given: dict[str, Any], score: float, direction: str, failure: float, score_range: tuple[float, float]
) -> None:
    made = problem(**given)
    found = rollout(made)
    assert (found.score, made.direction, made.failure_score, made.score_range) == (
        score, direction, failure, score_range,
    )  # fmt: skip
    assert found.metrics == {"score": 7.0, "loss": 3.0, "hits": 4.0}


def test_a_task_without_metrics_is_left_as_it_is() -> None:
    plain = replace(problem(), metrics={})
    assert with_objective(plain, spec(metrics={})) is plain and with_objective(plain, {}) is plain


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Do well."),
        ({"score_key": "loss"}, "What counts is the metric loss alone; lower is better."),
        ({"mode": "weighted", "weights": {"loss": 2.0, "hits": 0.5}},
         "The score is - 2 * loss + 0.5 * hits; higher is better."),
        ({"mode": "pareto", "weights": {"hits": 1.0, "loss": 1.0}},
         "trade-offs between these metrics are looked for: loss (lower is better), hits (higher is better). The score "
         "is 1 * hits - 1 * loss; higher is better."),
    ],
)  # fmt: skip
def test_the_statement_says_what_counts(given: dict[str, Any], told: str) -> None:
    assert problem(**given).objective.startswith("Do well.") and told in problem(**given).objective


def test_a_failed_candidate_gets_every_metrics_failure() -> None:
    def guide(query: Any, response: Any, reference: Any) -> Any:
        raise CandidateError("output", "no")

    found = rollout(problem(guide, mode="weighted", weights={"loss": 1.0, "hits": 2.0}))
    assert found.failed and found.metrics == {"score": 99.0, "loss": 50.0, "hits": -1.0} and found.score == -52.0


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True, 10**400])
def test_a_metric_that_is_no_finite_number_is_the_candidates_failure(value: Any) -> None:
    warnings: list[str] = []
    made = problem(lambda query, response, reference: (1.0, "", {"loss": value, "hits": 1.0}))
    found = rollout(replace(made, warn=warnings.append))
    assert found.failed and found.score == 99.0 and found.feedback.startswith("the metric loss of this answer")
    assert len(warnings) == 1


def test_a_weighted_sum_beyond_a_double_is_the_candidates_failure() -> None:
    made = problem(lambda *_: (1.0, "", {"loss": -1e308, "hits": 1e308}), mode="weighted",
                   weights={"loss": 1.0, "hits": 1.0})  # fmt: skip
    assert rollout(made).failed


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ((1.0, "", {"loss": 1.0}), "no metric 'hits'"),
        ((1.0, ""), "no metric 'loss'"),
        ((1.0, "", {"loss": 1.0, "hits": 1.0, "more": 1.0}), "the metric 'more', which task.toml does not declare"),
        ((1.0, "", {"loss": 1.0, "hits": 1.0, "score": 1.0}), "the metric 'score', which"),
        ((1.0, "", [1.0, 2.0]), "returned list where metrics by name are expected"),
        ((1.0, "", {}, 4), r"where \(score, feedback, metrics\) is expected"),
    ],
)
def test_metrics_that_are_not_those_declared_are_the_tasks_fault(outcome: Any, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        rollout(problem(lambda *_: outcome))


def test_a_value_may_stand_for_a_metric_that_is_missing() -> None:
    made = problem(lambda *_: (1.0, "", {"hits": 1.0}), mode="weighted", weights={"loss": 1.0, "hits": 1.0},
                   missing_value=-8.0)  # fmt: skip
    found = rollout(made)
    # Oriented: 8 less than nothing, of a metric of which lower is better.
    assert found.metrics == {"score": 1.0, "loss": 8.0, "hits": 1.0} and found.score == -7.0


def test_the_mean_of_the_score_is_the_score_of_the_means() -> None:
    values = iter([{"loss": 1.0, "hits": 4.0}, {"loss": 3.0, "hits": 0.0}])
    made = problem(lambda *_: (0.0, "", next(values)), mode="weighted", weights={"loss": 0.5, "hits": 1.0})
    found = [rollout(made), rollout(made)]
    assert mean_metrics(found) == {"score": 0.0, "loss": 2.0, "hits": 2.0}
    assert mean_score(found) == 1.0 == made.comparison.scalar(mean_metrics(found), made.metrics)


def test_the_optimizer_is_told_every_metric_and_its_direction() -> None:
    made = problem(mode="weighted", weights={"loss": 1.0, "hits": 1.0})
    graph = MinibatchGraph.__new__(MinibatchGraph)
    graph.problem = made
    assert graph._scores(rollout(made)) == (
        "score 1, higher is better; loss 3, lower is better; hits 4, higher is better"
    )


# ------------------------------------------------------------------------------------------------------ dominance

POINTS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), max_size=12)


def test_dominance_needs_one_better_and_none_worse() -> None:
    assert dominates((1, 2), (1, 1)) and dominates((2, 2), (1, 1))
    assert not dominates((1, 1), (1, 1)) and not dominates((2, 0), (1, 1)) and not dominates((1, 1), (1, 2))


@given(POINTS)
def test_fronts_are_those_of_the_definition(points: list[tuple[int, ...]]) -> None:
    found = fronts(points)
    assert sorted(itertools.chain(*found)) == list(range(len(points)))
    for place, front in enumerate(found):
        rest = set(itertools.chain(*found[place:]))
        assert front == sorted(i for i in rest if not any(dominates(points[j], points[i]) for j in rest))


VECTORS = st.lists(
    st.fixed_dictionaries({"score": st.just(0.0), "loss": st.integers(-3, 3), "hits": st.integers(-3, 3)}),
    min_size=1, max_size=15,
)  # fmt: skip


@given(VECTORS, st.sampled_from(["weighted", "lexicographic", "random_seeded"]))
def test_the_best_of_a_front_is_the_first_of_the_ranking_whenever_it_is_asked(
    vectors: list[dict[str, float]], tie_break: str
) -> None:
    made = problem(mode="pareto", weights={"loss": 1.0, "hits": 1.0}, tie_break=tie_break)
    front = Front[int](made.comparison, made.metrics, seed=3)
    for number, vector in enumerate(vectors):
        assert front.add(vector, number) == ranking(made.comparison, made.metrics, vectors[: number + 1], seed=3)[0]


@given(VECTORS)
def test_the_best_by_a_sum_with_all_weights_above_zero_is_never_dominated(vectors: list[dict[str, float]]) -> None:
    made = problem(mode="pareto", weights={"loss": 1.0, "hits": 0.25})
    sums = [made.comparison.scalar(vector, made.metrics) for vector in vectors]
    assert ranking(made.comparison, made.metrics, vectors, seed=0)[0] == sums.index(max(sums))


def test_tie_breaks_choose_differently_among_states_that_none_dominates() -> None:
    vectors = [{"score": 0.0, "loss": float(i), "hits": float(h)} for i, h in enumerate([0, 5, 6, 6.5])]

    def order(**given: Any) -> list[int]:
        made = problem(mode="pareto", weights={"loss": 1.0, "hits": 1.0}, **given)
        return ranking(made.comparison, made.metrics, vectors, seed=1)

    assert order()[0] == 1
    assert order(tie_break="lexicographic") == [0, 1, 2, 3]
    assert order(tie_break="lexicographic", pareto_metrics=["hits", "loss"]) == [3, 2, 1, 0]
    drawn = {tuple(order(tie_break="random_seeded", seed=seed)) for seed in range(20)}
    assert len(drawn) > 5 and tuple(order(tie_break="random_seeded", seed=1)) == tuple(order(tie_break="random_seeded"))


def test_metrics_are_turned_so_that_higher_is_better() -> None:
    made = problem()
    assert oriented_point({"loss": 2.0, "hits": 3.0}, ["hits", "loss"], made.metrics) == (3.0, -2.0)
