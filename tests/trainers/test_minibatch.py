"""Minibatch: the state moves with every proposal, or with those that are better on their minibatch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.trainers.memory_context import numeric, seeded
from tests.trainers.scripted_search import explored, kept, lines, script, targets
from trace_bench.trainers.minibatch import Minibatch

WALK = script({"s1.c0.p0": 1.0, "s2.c0.p0": -4.0, "s3.c0.p0": 2.0})


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_state_moves_with_every_proposal_and_ends_where_it_ends(context: Any, direction: str) -> None:
    memory = context(numeric(direction=direction, validate=2), WALK)
    final = memory.search(Minibatch, num_steps=2)
    assert explored(memory) == [["seed"], ["s1.c0.p0"]] and kept(memory) == [["s1.c0.p0"], ["s2.c0.p0"]]
    assert (final, memory.best_state) == ({"x": -4.0}, {"x": 1.0})
    assert lines(memory) == [
        (1, "seed", "train", 1, True), (1, "s1.c0.p0", "validate", 2, True),
        (2, "s1.c0.p0", "train", 1, True), (2, "s2.c0.p0", "validate", 2, True),
    ]  # fmt: skip


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_with_ensure_improvement_only_what_is_better_goes_on(context: Any, direction: str) -> None:
    memory = context(numeric(direction=direction, validate=2), WALK)
    final = memory.search(Minibatch, num_steps=3, ensure_improvement=True)
    assert kept(memory) == [["s1.c0.p0"], ["s1.c0.p0"], ["s3.c0.p0"]]
    assert final == memory.best_state == {"x": 2.0}
    decided = {
        s.candidate: (s.accepted, s.reason) for s in memory.steps if s.split == "train" and s.candidate != "seed"
    }
    assert decided["s2.c0.p0"] == (False, "not better than s1.c0.p0 on the minibatch")
    assert {s.candidate for s in memory.steps if s.split == "validate"} == {"seed", "s1.c0.p0", "s3.c0.p0"}


def test_an_equal_score_is_no_improvement(context: Any) -> None:
    memory = context(numeric(), script({"s1.c0.p0": 6.0}))  # as far from 3 as the start
    memory.search(Minibatch, num_steps=1, ensure_improvement=True)
    assert kept(memory) == [["seed"]]


@pytest.mark.parametrize(("threshold", "goes_on"), [(0.5, True), (1.0, False), (1.5, False)])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_threshold_must_be_exceeded(context: Any, direction: str, threshold: float, goes_on: bool) -> None:
    memory = context(numeric(direction=direction), WALK)  # 1 is better than 0 by 1
    memory.search(Minibatch, num_steps=1, ensure_improvement=True, improvement_threshold=threshold)
    assert kept(memory) == [["s1.c0.p0"] if goes_on else ["seed"]]


def test_a_proposal_is_compared_on_the_minibatch_that_it_comes_of(context: Any) -> None:
    """Target -10 for one half, 10 for the other: 8 is better or worse, by the minibatch alone."""
    memory = context(targets([-10.0, -10.0, 10.0, 10.0], [10.0]), script({"s1.c0.p0": 8.0}))
    memory.search(Minibatch, num_steps=1, train_batch_size=3, ensure_improvement=True)
    (_, told), (_, again) = [run for run in memory.evaluated if run[0] == "train"]
    assert told == again and len(told) == 3
    better = sum(i >= 2 for i in told) == 2
    assert kept(memory) == [["s1.c0.p0"] if better else ["seed"]]


def test_a_proposal_of_an_earlier_state_goes_back_there(context: Any) -> None:
    memory = context(numeric(validate=1), script({"s1.c0.p0": 1.0, "s2.c0.p0": 0.0, "s3.c0.p0": 2.0}))
    assert memory.search(Minibatch, num_steps=3) == {"x": 2.0}
    assert kept(memory) == [["s1.c0.p0"], ["seed"], ["s3.c0.p0"]]
    assert memory.told("proposal.known") == [{"slot": str(memory.calls[1].slot), "same_as": "seed"}]
    assert memory.steps[-1].parents == ("seed",)
    assert [c for _, c, split, _, _ in lines(memory) if split == "validate"] == ["s1.c0.p0", "s3.c0.p0"]  # once each


def test_what_changes_nothing_leaves_the_state_where_it_is(context: Any) -> None:
    memory = context(numeric(), script({"s1.c0.p0": 0.0, "s3.c0.p0": 1.0}))
    memory.search(Minibatch, num_steps=3)
    assert kept(memory) == [["seed"], ["seed"], ["s3.c0.p0"]]
    assert [d["reason"] for d in memory.told("proposal.dropped")] == ["unchanged"]
    assert len(memory.told("proposal.unusable")) == 1


@pytest.mark.parametrize(("frequency", "judged"), [(0, [5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5])])
def test_judgements_come_every_so_many_steps_and_at_the_end(context: Any, frequency: int, judged: list[int]) -> None:
    memory = context(numeric(train=2, validate=3), seeded(1))
    memory.search(Minibatch, num_steps=5, eval_frequency=frequency)
    assert [s.step for s in memory.steps[1:] if s.split == "validate"] == judged


def test_only_what_was_judged_becomes_the_best(context: Any) -> None:
    answers = script({"s1.c0.p0": 3.0, "s2.c0.p0": 1.0})
    memory = context(numeric(validate=1), answers)
    memory.search(Minibatch, num_steps=2, eval_frequency=2)
    assert memory.best_state == {"x": 1.0}  # 3 was passed by
    memory = context(
        numeric(train=1), answers
    )  # where a minibatch holds all that states are judged on, it is a judgement
    memory.search(Minibatch, num_steps=2, eval_frequency=2)
    assert memory.best_state == {"x": 3.0}
    assert memory.evaluations == 1 + 2  # the start, which is the first minibatch too; the two states after it


def test_training_examples_named_like_those_to_validate_on_are_no_judgement(context: Any) -> None:
    problem = targets([0.0], [5.0])
    problem = replace(problem, train=tuple(replace(example, id="v0") for example in problem.train))
    memory = context(problem, script({"s1.c0.p0": 4.0}))
    memory.search(Minibatch, num_steps=2)
    assert [(s.step, s.split, s.score) for s in memory.steps if s.candidate == "s1.c0.p0"] == [
        (1, "validate", -1.0), (2, "train", -4.0),
    ]  # fmt: skip
    assert memory.told("search.step")[-1]["best_mean"] == -1.0 == memory.best_score


def test_epochs_go_on_until_the_data_was_seen(context: Any) -> None:
    memory = context(numeric(train=5), seeded(1))
    memory.search(Minibatch, num_steps=1, num_epochs=2, train_batch_size=2)
    runs = [s for s in memory.steps[1:] if s.reason == "run on the minibatch"]
    assert [len(s.rollouts) for s in runs] == [2, 2, 1] * 2
