"""ParetobasedPS: the front by hand and by its definition, and who is explored of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.memory_context import MemoryContext, suggest
from tests.trainers.test_priority_family import spread
from trace_bench.trainers.base import Slot
from trace_bench.trainers.candidates import Candidate
from trace_bench.trainers.pareto_search import ParetobasedPS, drawn, front
from trace_bench.worker.problem import Example, Parameter, Problem

EXAMPLES = [("validate", name) for name in "abc"]


def candidate(created: int, **scores: list[float]) -> Candidate:
    by_example = {("validate", name): values for name, values in scores.items()}
    everything = [score for values in scores.values() for score in values]
    return Candidate(f"c{created}", {"x": created}, (), created, scores=everything, by_example=by_example)


def test_the_front_by_hand() -> None:
    table = [
        candidate(0, a=[1.0], b=[1.0], c=[0.0]),  # wins a and b
        candidate(1, a=[0.0], b=[1.0], c=[0.0]),  # wins b alone: 0 wins that and more, so it is out
        candidate(2, a=[0.0], b=[0.0], c=[1.0]),  # wins c
        candidate(3, a=[0.9], b=[0.9], c=[0.9]),  # the highest mean of all, and best at nothing
        candidate(4, a=[2.0, 0.0], b=[1.0], c=[0.5]),  # a mean of 1 on a: wins the same as 0, and both stay
    ]
    a, b, c = EXAMPLES
    assert front(table, EXAMPLES) == {0: {a, b}, 2: {c}, 4: {a, b}}


def test_who_has_no_score_on_an_example_has_no_part_in_it() -> None:
    table = [candidate(0, a=[-5.0]), candidate(1, a=[-6.0], b=[-9.0])]
    assert front(table, EXAMPLES) == {0: {EXAMPLES[0]}, 1: {EXAMPLES[1]}}


TABLES = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=7)


@given(TABLES)
def test_the_front_is_what_its_definition_says(table: list[list[int]]) -> None:
    candidates = [candidate(i, a=[float(a)], b=[float(b)], c=[float(c)]) for i, (a, b, c) in enumerate(table)]
    wins = [{k for k in range(3) if row[k] == max(other[k] for other in table)} for row in table]
    expected = {
        i: {EXAMPLES[k] for k in mine}
        for i, mine in enumerate(wins)
        if mine and not any(mine < other for other in wins)
    }
    assert front(candidates, EXAMPLES) == expected
    assert set().union(*expected.values()) == set(EXAMPLES), "somebody on the front is best at each example"


def test_a_draw_is_by_weight_and_without_replacement() -> None:
    table = [candidate(i) for i in range(3)]
    rng = random.Random(1)
    draws = [[c.created for c in drawn(table, [6, 3, 1], 2, rng)] for _ in range(4000)]
    assert all(len(set(draw)) == 2 for draw in draws)
    first = Counter(draw[0] for draw in draws)
    assert [round(first[i] / 4000, 1) for i in range(3)] == [0.6, 0.3, 0.1]
    second = Counter(draw[1] for draw in draws if draw[0] == 0)
    assert second[1] / first[0] == pytest.approx(0.75, abs=0.03), "of the two that are left, 3 to 1"
    assert len(table) == 3


SCRIPT = {1: (1.0, 5.0), 2: (2.9, 0.5), 3: (4.9, -4.0)}


def scripted(messages: Any, slot: Slot, variables: Any) -> str:
    if slot.step not in SCRIPT or slot.candidate != "c0":
        return suggest(x0=variables[0]["value"])
    return suggest(x0=SCRIPT[slot.step][slot.proposal])


def explored(memory: MemoryContext) -> list[list[str]]:
    return [told["explored"] for told in memory.told("search.step")]


def test_who_is_best_at_something_is_explored_in_the_order_of_means(context: Any) -> None:
    """Validation wants 1, 3 and 5. Step 1 makes 1 (best at 1) and 5 (best at 5); both are 2 from 3, where they tie. So
    neither wins what the other does, and the start is best at nothing. Step 2 explores 5 first, the newer of equal
    means, and makes 2.9 (best at 3) and 0.5. Then 1, 2.9 and 5 are the front, and 2.9 has the best mean."""
    memory = context(spread(train=2, validate=3), scripted)
    memory.search(ParetobasedPS, num_steps=3, num_candidates=3, num_proposals=2)
    wins = [told["wins"] for told in memory.told("search.front")]
    assert wins[0] == {"seed": 3}
    # The scores of the minibatch counted into the start's mean, but not into the validation examples.
    assert wins[1] == {"s1.c0.p0": 2, "s1.c0.p1": 2}
    assert wins[2] == {"s1.c0.p0": 1, "s1.c0.p1": 1, "s2.c0.p0": 1}
    assert explored(memory)[0] == ["seed"]
    assert set(explored(memory)[1]) == {"s1.c0.p0", "s1.c0.p1"}
    assert explored(memory)[2][0] == "s2.c0.p0" and len(explored(memory)[2]) == 3
    assert [s.extra["front_size"] for s in memory.steps[1:]] == [1, 1, 2, 2, 3, 3]


def test_a_larger_front_is_cut_off_by_mean_or_drawn(context: Any) -> None:
    by_mean = context(spread(train=2, validate=3), scripted)
    by_mean.search(ParetobasedPS, num_steps=3, num_candidates=1)
    assert explored(by_mean)[2] == ["s2.c0.p0"]
    drawn_by_wins = {}
    for seed in range(12):
        memory = context(spread(train=2, validate=3), scripted, seed=seed)
        memory.search(ParetobasedPS, num_steps=3, num_candidates=1, front_selection="wins")
        drawn_by_wins[seed] = explored(memory)[1][0]
    assert set(drawn_by_wins.values()) == {"s1.c0.p0", "s1.c0.p1"}


def test_what_is_explored_leaves_its_memory_until_it_is_pushed_back(context: Any) -> None:
    """So what the short-term memory has no room for is in none: the start, which was in the long-term one."""
    memory = context(spread(train=2, validate=3), scripted)
    memory.search(ParetobasedPS, num_steps=1, memory_update_frequency=2, short_term_memory_size=1)
    assert set(memory.told("search.step")[0]["forgotten"]) == {"seed", "s1.c0.p0"}


def test_what_is_best_at_one_example_outlives_what_is_better_on_average(context: Any) -> None:
    """A specialist that PrioritySearch would never explore: the mean of the generalist is far above its own."""

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return (1.0 if round(response) == reference else 0.6 if round(response) == 7 else 0.0), "no"

    problem = Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=tuple(Example(f"t{i}", None, i) for i in range(1, 5)),
        objective="o",
        direction="maximize",
        failure_score=0.0,
    )

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(x0=(7.0, 2.0)[slot.proposal]) if slot.step == 1 else suggest(x0=variables[0]["value"])

    memory = context(problem, model)
    memory.search(ParetobasedPS, num_steps=2, num_candidates=2)
    assert memory.told("search.front")[1]["wins"] == {"s1.c0.p0": 3, "s1.c0.p1": 1}
    assert set(explored(memory)[1]) == {"s1.c0.p0", "s1.c0.p1"}
