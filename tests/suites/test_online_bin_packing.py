from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.resources import data_dir
from trace_bench.suites.judge import Judge
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.problem import CandidateError, Problem

TASK = "llm4ad:optimization/online_bin_packing"
FOLDER = data_dir("benchmarks") / "LLM4AD/benchmark_tasks/optimization/online_bin_packing"
JUDGE = Judge(load_module(FOLDER / "evaluator.py"), load_task_spec(FOLDER).raw)
Priority = Callable[[float, np.ndarray], Any]


def play(priority: Priority, items: tuple[int, ...], capacity: int = 100) -> tuple[float, str]:
    instance = {"sizes": items, "capacity": capacity}
    score, feedback, metrics = JUDGE.evaluate(priority, instance)  # type: ignore[arg-type]
    assert metrics["normalised"] == JUDGE.target(instance) / score
    return score, feedback


def simulated(priority: Priority, items: tuple[int, ...], capacity: int) -> int:
    """An independent simulation with plain lists, and every choice re-derived from the priorities."""
    bins: list[int] = []
    for item in items:
        offered = [(i, room) for i, room in enumerate(bins) if room >= item] + [(len(bins), capacity)]
        answer = [float(p) for p in priority(float(item), np.array([float(room) for _, room in offered]))]
        best = max(answer)
        chosen = offered[answer.index(best)][0]
        if chosen == len(bins):
            bins.append(capacity)
        bins[chosen] -= item
        assert bins[chosen] >= 0
    return len(bins)


def pseudo_random(item: float, bins: np.ndarray) -> np.ndarray:
    return np.sin(bins * 12.9898 + item * 78.233) * 43758.5453 % 1.0


@given(
    capacity=st.integers(1, 30),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=60),
    rule=st.sampled_from(
        [
            pseudo_random,
            lambda item, bins: -(bins - item),
            lambda item, bins: bins - item,
            lambda item, bins: np.zeros(len(bins)),
            lambda item, bins: np.where(bins == item, np.inf, -np.inf),
            lambda item, bins: [int(b) for b in bins],
            lambda item, bins: np.arange(len(bins), dtype=np.int8),
        ]
    ),
)
def test_score_is_that_of_an_independent_simulation(capacity: int, sizes: list[int], rule: Priority) -> None:
    items = tuple(min(size, capacity) for size in sizes)
    score, _ = play(rule, items, capacity)
    assert score == simulated(rule, items, capacity)
    assert -(-sum(items) // capacity) <= score <= len(items)


def test_first_maximum_wins_a_tie_and_an_empty_bin_comes_last() -> None:
    seen: list[tuple[float, list[float]]] = []

    def first_fit(item: float, bins: np.ndarray) -> np.ndarray:
        seen.append((item, bins.tolist()))
        return np.zeros(len(bins))

    score, _ = play(first_fit, (60, 70, 30, 40, 100, 30))
    assert score == 4
    assert seen == [
        (60.0, [100.0]),
        (70.0, [100.0]),
        (30.0, [40.0, 30.0, 100.0]),
        (40.0, [100.0]),
        (100.0, [100.0]),
        (30.0, [30.0, 60.0, 100.0]),
    ]


def test_the_state_is_the_evaluators() -> None:
    def greedy_thief(item: float, bins: np.ndarray) -> np.ndarray:
        bins[:] = 1e9
        return np.zeros(len(bins))

    items = (60, 60, 60, 30)
    assert play(greedy_thief, items)[0] == play(lambda item, bins: np.zeros(len(bins)), items)[0] == 3


def test_feedback_gives_lower_bound_and_gap() -> None:
    score, feedback = play(lambda item, bins: np.arange(len(bins)), (50, 50, 50, 50))
    assert score == 4
    assert feedback.startswith("No answer can score below 2. 4 bins for 4 items, 2 (100.00%) above the bound.")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda bins: np.full(len(bins), np.nan), "must be a number, not nan"),
        (lambda bins: np.zeros(len(bins) + 1), "must have shape (1,), not (2,)"),
        (lambda bins: [], "must have 1 entries, not 0"),
        (lambda bins: np.zeros((len(bins), 1)), "not (1, 1)"),
        (lambda bins: bins.astype(complex), "type complex128"),
        (lambda bins: bins > 0, "type bool"),
        (lambda bins: [True] * len(bins), "not True"),
        (lambda bins: 0.0, "not be the number 0.0"),
        (lambda bins: None, "not be None"),
        (lambda bins: ["a"] * len(bins), "not the text 'a'"),
        (lambda bins: [10**400] * len(bins), "bits"),
        (lambda bins: np.array([object()] * len(bins)), "type object"),
    ],
)
def test_what_is_no_priority_fails_the_candidate_at_its_item(answer: Callable[[np.ndarray], Any], says: str) -> None:
    with pytest.raises(CandidateError) as caught:
        play(lambda item, bins: answer(bins), (10, 20))
    assert caught.value.phase == "output"
    assert caught.value.message.startswith("item 0 (size 10, bins on offer: 1): priorities")
    assert says in caught.value.message


def test_infinite_priorities_are_priorities() -> None:
    def perfect_fit_first(item: float, bins: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1.0 / (bins - item)

    assert play(perfect_fit_first, (60, 50, 50, 40))[0] == 2
    assert play(lambda item, bins: np.full(len(bins), -np.inf), (60, 50, 50, 40))[0] == 2


@given(st.none() | st.floats() | st.text(max_size=3) | st.lists(st.floats() | st.integers() | st.none(), max_size=3))
def test_no_answer_makes_the_evaluator_raise_anything_but_candidate_error(answer: Any) -> None:
    try:
        score, _ = play(lambda item, bins: answer, (10, 95, 20))
    except CandidateError:
        return
    assert 2 <= score <= 3


def alternatives(problem: Problem) -> dict[str, str]:
    (code,) = problem.parameters
    names = ("worse", "best_fit", "better", "broken")
    return {"template": str(code.value)} | {n: str(s) for n, s in zip(names, code.alternatives, strict=True)}


def test_better_best_fit_template_worse_in_that_order(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    found = {
        name: mean(problem.guide(None, source, e.reference)[0] for e in problem.train)
        for name, source in alternatives(problem).items()
        if name != "broken"
    }
    assert found["better"] < found["best_fit"] < found["template"] < found["worse"] < problem.failure_score
    assert found["template"] == 425.2


def test_broken_program_fails_with_its_line(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK, n_items=5)
    with pytest.raises(CandidateError) as caught:
        problem.guide(None, alternatives(problem)["broken"], problem.train[0].reference)
    assert str(caught.value).startswith("call failed at line 6: ")
    assert "NameError" in str(caught.value)
    assert "(the line reads: return -(remaining - item))" in str(caught.value)


def test_a_policy_keeps_its_process_for_one_instance_only(build_task: Callable[..., Problem]) -> None:
    counts = (
        "calls = []\ndef priority(item, bins):\n    calls.append(item)\n    assert len(calls) <= 7\n    return -bins\n"
    )
    problem = build_task(TASK, n_items=7)
    for example in problem.train:
        score, *_ = problem.guide(None, counts, example.reference)
        assert score <= 7


def test_instances_are_what_the_statement_says(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK, n_items=5000)
    sizes = [size for e in problem.train for size in e.reference["sizes"]]
    assert {type(size) for size in sizes} == {int}
    assert min(sizes) >= 1
    assert max(sizes) <= 100
    # A Weibull variate of shape 3 and scale 45 has mean 45 * gamma(4/3) = 40.18 and standard deviation 14.6.
    assert mean(sizes) == pytest.approx(45 * math.gamma(4 / 3), abs=5 * 14.6 / math.sqrt(25000))


def test_equal_seeds_give_equal_instances_and_nothing_else_does(build_task: Callable[..., Problem]) -> None:
    def of(seed: int, test_seed: int | None) -> list[list[Any]]:
        problem = build_task(TASK, seed=seed, test_seed=test_seed)
        return [[e.reference["sizes"] for e in split] for split in (problem.train, problem.validate, problem.test)]

    first, again, other = of(1, 10), of(1, 10), of(2, 11)
    assert first == again
    everything = [items for run in (first, other) for split in run for items in split]
    assert len(everything) == len(set(everything)) == 30


def test_held_out_instances_depend_on_the_test_seed_alone(build_task: Callable[..., Problem]) -> None:
    assert build_task(TASK, seed=1).test == ()
    with_one = build_task(TASK, seed=1, test_seed=10)
    assert with_one.test == build_task(TASK, seed=2, test_seed=10).test
    assert with_one.test != build_task(TASK, seed=1, test_seed=1).test
    assert with_one.train == build_task(TASK, seed=1).train


def test_arguments_set_sizes_failure_and_range(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK, n_instance=2, n_items=30, capacity=50, num_validate=1, test_seed=3)
    assert [len(s) for s in (problem.train, problem.validate, problem.test)] == [2, 1, 2]
    assert problem.failure_score == 30.0
    assert problem.score_range is not None and problem.score_range[0] == 30.0
    assert max(size for e in problem.train for size in e.reference["sizes"]) <= 50
    assert "scores 30 for it" in problem.objective


def test_range_is_worst_first_and_holds_the_shipped_programs(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    assert problem.score_range == (1000.0, 397.0)
    assert problem.better(413, 423)
