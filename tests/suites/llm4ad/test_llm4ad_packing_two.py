"""Online bin packing with two objectives."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task
from tests.suites.llm4ad.test_llm4ad_packing_bins import fewest, following, packings
from trace_bench.suites.llm4ad import binpacking
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import Problem, Programs

GetTask = Callable[[str], Task]
TWO = "llm4ad:optimization/online_bin_packing_2O"


def best_fit(item: float, bins: np.ndarray) -> np.ndarray:
    return item - bins


def metrics(one: Task, rule: Callable[..., Any], instance: dict[str, Any]) -> dict[str, float]:
    return dict(one.verdict(instance, one.module.answer(rule, instance)).metrics)


@pytest.mark.parametrize("seed", range(4))
def test_every_packing_can_be_played_and_the_best_of_them_is_the_best_score(seed: int, task: GetTask) -> None:
    one = task(TWO)
    small = one.instance(seed, n_items=6)
    sizes = list(small["sizes"])
    found = [metrics(one, following(chosen, sizes, 100), small) for chosen in packings(sizes, 100)]
    bins, operations = [f["bins"] for f in found], [f["operations"] for f in found]
    bound, worst = one.judge.best([small]), one.module.worst_metrics(small)
    assert bound is not None and bound <= min(bins) == fewest(sizes, 100)
    assert max(bins) <= worst["bins"] == one.judge.worst([small]) == 6
    assert min(operations) >= 6 and max(operations) <= worst["operations"] == 21


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=60),
    rule=st.sampled_from([
        best_fit, lambda item, bins: bins - item, lambda item, bins: np.zeros(len(bins)),
        lambda item, bins: np.sin(bins * 12.9898 + item), lambda item, bins: np.full(len(bins), -np.inf),
    ]),
)  # fmt: skip
def test_without_infinities_blocks_come_to_the_packing_of_the_plain_task(sizes: list[int], rule: Any) -> None:
    chosen, entries, blocks = binpacking.play_in_blocks(rule, sizes, 20)
    assert chosen == binpacking.play_online(rule, sizes, 20)
    offered: list[int] = []
    binpacking.play_online(lambda item, bins: offered.append(len(bins)) or rule(item, bins), sizes, 20)  # type: ignore[func-returns-value]
    assert entries == sum(offered) and blocks == sum(-(-count // 8) for count in offered)


def test_infinity_ends_the_search_and_what_was_not_sent_is_not_counted() -> None:
    sizes = [1] * 12
    apart = lambda item, bins: np.where(bins == 20, 1.0, 0.0)  # noqa: E731
    seen: list[list[float]] = []

    def rule(item: float, bins: np.ndarray) -> np.ndarray:
        seen.append(bins.tolist())
        return np.full(len(bins), np.inf) if item == 2 else apart(item, bins)

    chosen, entries, blocks = binpacking.play_in_blocks(rule, [*sizes, 2], 20)
    assert chosen == [*range(12), 0]
    assert seen[-1] == [19.0] * 8 and entries == sum(range(1, 13)) + 8 and blocks == 8 + 4 * 2 + 1
    assert seen[-3:-1] == [[19.0] * 8, [19.0] * 3 + [20.0]]


def test_infinity_takes_its_bin_although_an_earlier_block_had_a_higher_finite_priority() -> None:
    def rule(item: float, bins: np.ndarray) -> np.ndarray:
        if item == 1:
            return np.where(bins == 20, 1.0, 0.0)
        return np.where(np.arange(len(bins)) == 1, np.inf if bins[-1] == 20 else 1e308, 0.0)

    chosen, *_ = binpacking.play_in_blocks(rule, [*[1] * 10, 2], 20)
    assert chosen[-1] == 9
    assert binpacking.play_in_blocks(lambda item, bins: [-math.inf] * len(bins), [1, 1], 20)[0] == [0, 0]


def test_operations_are_counted_by_the_evaluator_alone(task: GetTask) -> None:
    one = task(TWO)
    instance = one.instance(n_items=60)

    def thief(item: float, bins: np.ndarray) -> np.ndarray:
        found = best_fit(item, bins.copy())
        bins[:] = 0
        return found

    assert metrics(one, thief, instance) == metrics(one, best_fit, instance)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda bins: np.full(len(bins), np.nan), "must be a number, not nan"),
        (lambda bins: np.zeros(len(bins) + 1), "must have shape (1,), not (2,)"),
        (lambda bins: np.inf, "not be the number inf"),
        (lambda bins: None, "not be None"),
        (lambda bins: [True], "not True"),
    ],
)
def test_what_is_no_priority_is_refused(answer: Callable[[np.ndarray], Any], says: str, task: GetTask) -> None:
    message = task(TWO).refusal({"sizes": (10, 20), "capacity": 100}, lambda item, bins: answer(bins))
    assert message.startswith("item 0 (size 10, bins on offer: 1): priorities") and says in message


def test_fewer_bins_cost_operations(task: GetTask) -> None:
    one = task(TWO)
    drawn = [one.instance(seed) for seed in range(3)]
    names = ("template", "reference", "thorough", "worse")
    found = {name: [metrics(one, one.program(name), i) for i in drawn] for name in names}
    bins, operations = (
        {name: mean(f[key] for f in measured) for name, measured in found.items()} for key in ("bins", "operations")
    )
    assert bins["thorough"] < bins["template"] - 2 and operations["template"] < operations["thorough"] / 1.5
    assert bins["reference"] < bins["template"] - 2 and operations["template"] < operations["reference"]
    assert operations["reference"] < operations["thorough"]
    assert bins["worse"] > bins["template"] and operations["worse"] > operations["template"]
    for name, metric in one.spec.metrics.items():
        assert metric.direction == ("maximize" if name == "normalised" else "minimize")


@pytest.mark.parametrize(
    "source", ["def priority(item, bins):\n    return 1 / 0\n", "def priority(item, bins): return 1"]
)
def test_a_failure_costs_what_it_costs_on_its_instance(
    source: str, build_task: Callable[..., Problem], programs: Programs
) -> None:
    problem = build_task(TWO, n_items=30, num_train=1, num_validate=0)
    (rollout,) = evaluate_state(problem, {"code": source}, problem.train, programs)
    assert rollout.failed and rollout.score == 30
    assert rollout.metrics == {"score": 30, "bins": 30, "operations": 465, "normalised": 0}


def test_feedback_names_both(task: GetTask) -> None:
    one = task(TWO)
    text = one.judge.evaluate(best_fit, {"sizes": (60, 60, 40), "capacity": 100})[1]  # type: ignore[arg-type]
    assert "bins: 2 bins for 3 items, 0 (0.00%) above the bound" in text
    assert "operations: 5 entries were scored, 1.7 for an item, in 3 blocks." in text
