"""StreamingPrioritySearch: children are scored by the minibatches that explore them, and who has most is reported."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from tests.trainers.memory_context import MemoryContext, numeric, suggest
from tests.trainers.test_priority_family import spread
from trace_bench.trainers.base import Slot
from trace_bench.trainers.streaming_search import StreamingPrioritySearch, softmax_keys


def told(memory: MemoryContext) -> list[tuple[Any, ...]]:
    return [(s.step, s.candidate, s.reason, s.split, len(s.rollouts), s.score) for s in memory.steps]


def upwards(messages: Any, slot: Slot, variables: Any) -> str:
    """One more than the parent's value."""
    return suggest(x0=variables[0]["value"] + 1.0)


def test_a_child_is_scored_when_it_is_explored_and_reported_when_it_leads(context: Any) -> None:
    """The number is 3, each score minus the distance to it; two candidates run in a step, one gets a child."""
    memory = context(numeric(train=4, validate=3), upwards, deterministic=False)
    best = memory.search(
        StreamingPrioritySearch, num_steps=3, num_candidates=2, num_proposals=1, train_batch_size=2,
        exploration_temperature=0.0,
    )  # fmt: skip
    assert told(memory) == [
        (0, "seed", "start", "validate", 3, -3.0),
        (1, "seed", "stream", "train", 2, -3.0),  # makes 1.0, which is not evaluated
        (2, "seed", "stream", "train", 2, -3.0),
        (2, "s1.c0.p0", "stream", "train", 2, -2.0),
        (2, "s1.c0.p0", "report", "validate", 3, -2.0),  # it leads, and gets a child
        (3, "s1.c0.p0", "stream", "train", 2, -2.0),
        (3, "s2.c1.p0", "stream", "train", 2, -1.0),
        (3, "s2.c1.p0", "report", "validate", 3, -1.0),
    ]
    assert best == {"x": 2.0} == memory.best_state
    assert memory.evaluations == 3 + 2 + 4 + 3 + 4 + 3
    assert [s.extra["scores"] for s in memory.steps[1:]] == [5, 7, 2, 5, 7, 2, 5]


def test_a_lucky_minibatch_does_not_become_the_best_state(context: Any) -> None:
    """5 is perfect on the example that wants 5, and worse than 3 on all of the training data."""

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(x0={1: 3.0, 2: 5.0}.get(slot.step, 3.0))

    memory = context(spread(train=3), model)
    best = memory.search(StreamingPrioritySearch, num_steps=6, num_candidates=3, num_proposals=1)
    assert best == {"x": 3.0}
    whole = [s for s in memory.steps if len(s.rollouts) == 3]
    assert {s.candidate for s in whole if s.reason == "report"} == {s.candidate for s in whole} - {"seed"}
    assert len({s.candidate for s in whole}) == len(whole), "each is reported once"


def test_a_minibatch_of_everything_is_as_good_as_a_report(context: Any) -> None:
    memory = context(spread(train=3), upwards, deterministic=False)
    best = memory.search(
        StreamingPrioritySearch, num_steps=4, num_candidates=2, train_batch_size=3, exploration_temperature=0.0
    )
    assert {s.reason for s in memory.steps} == {"start", "stream"} and memory.evaluations == 3 * len(memory.steps)
    assert best == {"x": 3.0}


def test_untested_candidates_are_explored_before_all_others_and_the_newest_first(context: Any) -> None:
    memory = context(spread(train=2), upwards)
    memory.search(
        StreamingPrioritySearch, num_steps=2, num_candidates=4, num_proposals=2, num_batches=1,
        use_best_candidate_to_explore=False,
    )  # fmt: skip
    steps = memory.told("search.step")
    assert steps[0]["children"] == ["s1.c0.p0"], "both proposals are the same state"
    assert steps[1]["explored"] == ["s1.c0.p0", "seed"]


@pytest.mark.parametrize(
    ("candidates", "ratio", "proposals", "calls"),
    [(4, 0.5, 1, 2), (4, 0.5, 2, 2), (8, 0.5, 2, 4), (4, 1.0, 1, 4), (4, 0.0, 1, 1), (3, 0.5, 1, 1)],
)
def test_a_step_makes_as_many_children_as_the_next_can_run(
    context: Any, candidates: int, ratio: float, proposals: int, calls: int
) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(x0=random.Random(str(slot)).uniform(-9.0, 9.0))

    memory = context(spread(), model)
    memory.search(
        StreamingPrioritySearch, num_steps=9, num_candidates=candidates, num_proposals=proposals,
        exploration_ratio=ratio,
    )  # fmt: skip
    assert memory.warnings == []
    assert [sum(c.slot.step == step for c in memory.calls) for step in (7, 8, 9)] == [calls] * 3


def test_more_proposals_than_the_next_step_can_run_are_not_asked_for_and_that_is_said(context: Any) -> None:
    memory = context(spread(), upwards)
    memory.search(StreamingPrioritySearch, num_steps=1, num_candidates=4, num_proposals=5)
    assert len(memory.calls) == 2
    assert memory.warnings == [
        "num_proposals is 5, and num_candidates × exploration_ratio allows 2 children a step; 2 are asked for."
    ]


def test_pairs_are_drawn_in_proportion_to_the_exponential_of_their_priority() -> None:
    rng = random.Random(1)
    priorities, temperature = [0.0, 1.0, -1.0], 2.0
    weights = [math.exp(p / temperature) for p in priorities]
    draws = []
    for _ in range(5000):
        keys = softmax_keys(priorities, temperature, [rng.random() for _ in priorities])
        draws.append(sorted(range(3), key=lambda i: -keys[i]))
    first, second = Counter(d[0] for d in draws), Counter(d[1] for d in draws if d[0] == 1)
    for i in range(3):
        assert first[i] / 5000 == pytest.approx(weights[i] / sum(weights), abs=0.02)
    assert second[0] / first[1] == pytest.approx(weights[0] / (weights[0] + weights[2]), abs=0.03)


def test_keys_are_numbers_whatever_the_draw_and_the_scores() -> None:
    assert softmax_keys([1.0, 2.0], 0.0, [0.5, 0.5]) == [1.0, 2.0]
    for keys in (
        softmax_keys([0.0, 0.0], 1.0, [0.0, 1.0 - 2**-53]),
        softmax_keys([1.7e308, -1.7e308], 1e-9, [0.5, 0.5]),
    ):
        assert keys[0] == keys[0] and keys[1] == keys[1] and max(keys) < math.inf
