"""UCBSearch: the arm of highest bound is pulled, and the lowest leaves a full buffer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.trainers.memory_context import numeric, seeded
from tests.trainers.scripted_search import examples, explored, kept, lines, script, targets
from trace_bench.trainers.candidates import upper_confidence_bound
from trace_bench.trainers.ucb_search import UCBSearch


def test_the_bound_is_the_formula() -> None:
    assert upper_confidence_bound(0.5, 4, 16, 1.0, 1.0) == pytest.approx(0.5 + math.sqrt(math.log(16) / 4))
    assert upper_confidence_bound(0.5, 4, 16, 0.25, 8.0) == pytest.approx(0.5 + 2 * math.sqrt(math.log(16) / 4))
    assert upper_confidence_bound(-3.0, 1, 1, 1.0, 10.0) == -3.0  # ln 1 is 0
    assert upper_confidence_bound(0.5, 4, 16, 0.0, 1.0) == 0.5
    assert math.isfinite(upper_confidence_bound(1e308, 1, 9, 5.0, math.inf))


# Scores are -|x - 3|; one training example and nothing to validate on, so each run is one score. The constant is 1.
ANSWERS = {"s1.c0.p0": 1.0, "s2.c0.p0": 2.5, "s3.c0.p0": -5.0, "s4.c0.p0": 2.0, "s5.c0.p0": 2.8}
ONE = {"ucb_exploration_constant": 1.0, "evaluation_batch_size": 1}
RANGE = {"score_range": (-10.0, 0.0)}


def bound(scores: list[float], total: int, spread: float) -> float:
    return sum(scores) / len(scores) + math.sqrt(math.log(total) / len(scores)) * spread


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("end", [None, 10.0, 1000.0])
def test_a_search_by_hand(context: Any, direction: str, end: float | None) -> None:
    """The same whatever score range the task declares."""
    span = None if end is None else (-end, 0.0) if direction == "maximize" else (0.0, end)
    memory = context(numeric(direction=direction, score_range=span), script(ANSWERS))
    memory.search(UCBSearch, num_steps=4, **ONE)
    # 1: the start (-3) alone; it runs again (-3), its child A (x=1) scores -2: 3 scores in all, means 1 apart.
    # 2: A, for -2 + sqrt(ln 3) = -0.95 is more than -3 + sqrt(ln 3 / 2) = -2.26. A again, then B (2.5): -0.5.
    # 3: means are 2.5 apart. B: -0.5 + 2.5 sqrt(ln 5) = 2.67, A's 0.24. B again, then C (-5): -8.
    # 4: means are 7.5 apart. B: -0.5 + 7.5 sqrt(ln 7 / 2) = 6.90, A's 5.40, the start's 4.40, C's 2.46.
    assert explored(memory) == [["seed"], ["s1.c0.p0"], ["s2.c0.p0"], ["s2.c0.p0"]]
    assert [event["ucb"] for event in memory.told("search.step")] == pytest.approx(
        [-3.0, bound([-2.0], 3, 1.0), bound([-0.5], 5, 2.5), bound([-0.5] * 2, 7, 7.5)]
    )
    assert [s.extra["ucb"] for s in memory.steps[1:]] == pytest.approx(
        [bound([-2.0], 3, 1.0), bound([-0.5], 5, 2.5), bound([-8.0], 7, 7.5), bound([-1.0], 9, 7.5)]
    )
    assert lines(memory) == [(i, f"s{i}.c0.p0", "train", 1, None) for i in (1, 2, 3, 4)]
    assert memory.best_state == {"x": 2.5} and not memory.warnings


def test_a_large_constant_goes_round_and_none_stays_with_the_best_mean(context: Any) -> None:
    picked = {}
    for constant in (0.0, 50.0):
        memory = context(numeric(**RANGE), script(ANSWERS))
        memory.search(UCBSearch, num_steps=5, ucb_exploration_constant=constant, evaluation_batch_size=1)
        picked[constant] = [names[0] for names in explored(memory)]
    assert picked[0.0] == ["seed", "s1.c0.p0", *["s2.c0.p0"] * 3]
    # The bonus is for the number of runs alone: a child has one, whoever was run again has two or more.
    assert picked[50.0] == ["seed", "s1.c0.p0", "s2.c0.p0", "s3.c0.p0", "s4.c0.p0"]


def test_the_lowest_bound_leaves_a_full_buffer_before_the_new_one_joins(context: Any) -> None:
    memory = context(numeric(**RANGE), script(ANSWERS))
    memory.search(UCBSearch, num_steps=4, max_buffer_size=2, **ONE)
    # 2: at 5 scores, means 1 apart, start -3 + sqrt(ln 5 / 2) = -2.10, A -1.10: the start leaves. 3: at 7, means 1.5
    # apart, A -0.52, B 0.98: A leaves for C, which is worse. 4: at 9, means 7.5 apart, C 3.12, B 5.92: C leaves.
    assert [s.extra["evicted"] for s in memory.steps[1:]] == [None, "seed", "s1.c0.p0", "s3.c0.p0"]
    # The scores of what has left still count into the total, but not into the spread.
    assert [s.extra["ucb"] for s in memory.steps[1:]] == pytest.approx(
        [bound([-2.0], 3, 1.0), bound([-0.5], 5, 1.5), bound([-8.0], 7, 7.5), bound([-1.0], 9, 0.5)]
    )
    assert kept(memory) == [
        ["seed", "s1.c0.p0"], ["s1.c0.p0", "s2.c0.p0"], ["s2.c0.p0", "s3.c0.p0"], ["s2.c0.p0", "s4.c0.p0"],
    ]  # fmt: skip


def test_of_equal_bounds_the_newest_is_picked_and_the_oldest_leaves(context: Any) -> None:
    """Every state is as good, each is scored on as many examples, and the bonus counts for nothing."""
    flat = numeric(target=3.0, score_range=(-10.0, 0.0))
    flat = type(flat)(**{**vars(flat), "guide": lambda query, response, reference: (-1.0, "")})
    memory = context(flat, script(ANSWERS))
    memory.search(UCBSearch, num_steps=4, max_buffer_size=2, ucb_exploration_constant=0.0)
    assert explored(memory) == [["seed"], ["s1.c0.p0"], ["s2.c0.p0"], ["s3.c0.p0"]]
    assert [s.extra["evicted"] for s in memory.steps[1:]] == [None, "seed", "s1.c0.p0", "s2.c0.p0"]


def test_the_scale_of_the_scores_changes_nothing(context: Any) -> None:
    runs = []
    for scale in (1.0, 1000.0):
        problem = targets([3.0, 5.0, 7.0], scale=scale)
        memory = context(problem, seeded(1))
        memory.search(UCBSearch, num_steps=8, evaluation_batch_size=1, ucb_exploration_constant=0.3)
        runs.append((explored(memory), kept(memory)))
    assert runs[0] == runs[1]


def test_a_proposal_is_scored_on_a_fresh_sample_and_the_leader_on_everything(context: Any) -> None:
    memory = context(targets([3.0], [float(i) for i in range(30)], score_range=(-100.0, 0.0)), seeded(1))
    memory.search(UCBSearch, num_steps=4, evaluation_batch_size=5)
    samples = [examples(memory, step)[0] for step in (1, 2, 3, 4)]
    assert [len(sample) for sample in samples] == [5] * 4 and len(set(samples)) == 4
    judged = [s for s in memory.steps[1:] if len(s.rollouts) == 30]
    assert judged and all(s.accepted for s in judged)
    assert len({s.candidate for s in judged}) == len(judged)  # once each


@pytest.mark.parametrize(("frequency", "judged"), [(0, [4]), (1, [1, 2, 3, 4]), (2, [2, 4])])
def test_leaders_are_judged_now_and_then(context: Any, frequency: int, judged: list[int]) -> None:
    closer = script({f"s{step}.c0.p0": step / 2 for step in range(1, 5)})
    memory = context(numeric(validate=4, **RANGE), closer)
    memory.search(UCBSearch, num_steps=4, evaluation_batch_size=2, eval_frequency=frequency)
    assert [s.step for s in memory.steps[1:] if len(s.rollouts) == 4] == judged


def test_training_scores_count_into_the_mean_of_what_was_picked(context: Any) -> None:
    """The start is right on the training example and 10 off on what it is judged on: its mean rises as it is picked."""
    memory = context(targets([0.0], [10.0], score_range=(-20.0, 0.0)), script({"s1.c0.p0": 4.0}))
    final = memory.search(UCBSearch, num_steps=3, ucb_exploration_constant=0.0)
    # 1: the start at (-10 + 0) / 2 leads the child, -6. 2 and 3: it is picked again, and leads the more.
    assert explored(memory) == [["seed"]] * 3 and final == {"x": 0.0}
    assert [event["ucb"] for event in memory.told("search.step")] == pytest.approx([-10.0, -5.0, -10 / 3])
    assert memory.best_state == {"x": 4.0}  # on all examples of the selection split
