"""Crew scheduling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
CREW = "llm4ad:optimization/co_bench/crew_scheduling_co_bench"


def case(tasks: list[tuple[int, int]], arcs: list[tuple[int, int, int]], crews: int, limit: int) -> dict[str, Any]:
    listed = np.array(arcs, dtype=np.int64).reshape(-1, 3)
    return {"K": crews, "time_limit": limit, "tasks": np.array(tasks, dtype=np.int64), "arcs": listed}


FOUR = case([(0, 10), (10, 20), (5, 15), (20, 30)], [(0, 1, 7), (1, 3, 2), (2, 3, 4), (0, 3, 9)], 2, 30)


def chains(n: int) -> Iterator[list[list[int]]]:
    """All ways to put 0 .. n-1 into chains of increasing numbers."""
    if n == 0:
        yield []
        return
    for smaller in chains(n - 1):
        yield [*[list(c) for c in smaller], [n - 1]]
        for place in range(len(smaller)):
            yield [[*c, n - 1] if i == place else list(c) for i, c in enumerate(smaller)]


@pytest.mark.parametrize("seed", range(4))
def test_no_cover_beats_the_best_of_all_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one = task(CREW)
    full = one.instance(seed, n_tasks=14)
    first = np.argsort(full["tasks"][:, 0], kind="stable")[:7]  # by their starts, so that chains go up
    name = {int(old): new for new, old in enumerate(first)}
    arcs = [(name[i], name[j], c) for i, j, c in full["arcs"].tolist() if i in name and j in name]
    small = case([tuple(t) for t in full["tasks"][first].tolist()], arcs, 7, 480)
    small["K"] = one.module._crews_of_a_simple_rule(small)
    scores = []
    for crews in chains(len(first)):
        if len(crews) <= small["K"] and not one.broken(small, crews):
            scores.append(one.verdict(small, crews).score)
    bound = one.judge.best([small])
    assert scores and bound is not None and bound <= min(scores) and max(scores) <= one.judge.worst([small])
    assert one.play(one.program("reference"), small) == min(scores)


def test_the_bound_is_reached_where_duties_are_no_matter(task: GetTask) -> None:
    one = task(CREW)
    assert one.judge.best([FOUR]) == one.verdict(FOUR, [[0, 1, 3], [2]]).score == 9
    assert one.verdict(FOUR, [[0, 1], [2, 3]]).score == 11
    assert one.judge.best([FOUR | {"K": 4}]) == one.verdict(FOUR | {"K": 4}, [[0], [1], [2], [3]]).score == 0


def test_a_duty_may_last_as_long_as_the_limit_and_no_longer(task: GetTask) -> None:
    assert task(CREW).broken(FOUR, [[0, 1, 3], [2]]) == []
    assert task(CREW).broken(FOUR | {"time_limit": 29}, [[0, 1, 3], [2]]) == [
        "the duty of crew 0 lasts 30, longer than the limit 29"
    ]


@pytest.mark.parametrize(
    ("crews", "says"),
    [
        ([[0, 1, 3]], "task 2 is done by no crew"),
        ([[0, 1, 3], [2, 3]], "task 3 is done by crew 0 and again by crew 1"),
        ([[2, 1], [0, 3]], "crew 0 goes from task 2 to task 1, but task 1 starts at 10 before task 2 finishes at 15"),
    ],
)
def test_each_broken_rule_is_named(crews: list[list[int]], says: str, task: GetTask) -> None:
    assert task(CREW).broken(FOUR, crews) == [says]


def test_a_transition_that_is_not_listed_is_named(task: GetTask) -> None:
    fewer = FOUR | {"arcs": FOUR["arcs"][:3]}
    assert task(CREW).broken(fewer, [[0, 3], [1], [2]]) == [
        "crew 0 goes from task 0 to task 3, but that transition is not listed"
    ]


def test_a_task_twice_in_one_chain_is_named(task: GetTask) -> None:
    assert "task 3 is done by crew 0 and again by crew 0" in task(CREW).broken(FOUR, [[0, 1, 3, 3], [2]])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"crews": [[0]]}, "the crews must be a list, not a dict"),
        ([[0], [1], [2, 3]], "the crews must have at most 2 entries, not 3"),
        ([[0, 1, 2, 3, 0], []], "crew 0 must have at most 4 entries, not 5"),
        ([[0, 1], [2, 4]], "crew 1[1] must be within 0 .. 3, not the integer 4"),
        ([[0, 1], [2, 3.0]], "crew 1[1] must be an int"),
        ([0, 1, 2, 3][:2], "crew 0 must be a list, not the integer 0"),
    ],
)
def test_what_is_no_list_of_chains_is_refused(given: Any, says: str, task: GetTask) -> None:
    assert says in task(CREW).refusal(FOUR, lambda *_: given)


def test_crews_may_stay_at_home(task: GetTask) -> None:
    assert task(CREW).play(lambda *_: [[0, 1], [], [2, 3]], FOUR | {"K": 3}) == 11


@given(seed=st.integers(0, 2**32), shift=st.integers(0, 500), shuffle=st.randoms(use_true_random=False))
def test_renamed_tasks_shifted_times_and_dearer_transitions(seed: int, shift: int, shuffle: Any) -> None:
    one = task_of(CREW)
    full = one.instance(seed, n_tasks=30)
    crews = one.module.answer(one.program("template"), full)
    assert len(crews) == full["K"], "the rule that says how many crews there are"
    score, bound = one.verdict(full, crews).score, one.judge.best([full])
    names = list(range(len(full["tasks"])))
    shuffle.shuffle(names)
    renamed = full | {"tasks": np.empty_like(full["tasks"]), "arcs": full["arcs"].copy()}
    renamed["tasks"][names] = full["tasks"] + shift
    renamed["arcs"][:, :2] = np.array(names)[full["arcs"][:, :2]]
    renamed["arcs"][:, 2] *= 3
    again = [[names[t] for t in chain] for chain in crews[::-1]]
    assert one.verdict(renamed, again).score == 3 * score and one.judge.best([renamed]) == 3 * bound  # type: ignore[operator]


def test_one_task_needs_one_crew_and_no_transition(task: GetTask) -> None:
    one = task(CREW)
    tiny = one.instance(n_tasks=1)
    assert {one.play(one.program(program), tiny) for program in ("template", "reference", "worse")} == {0.0}
    assert one.judge.best([tiny]) == 0 < one.judge.worst([tiny])


def test_transitions_leave_time_for_the_way(task: GetTask) -> None:
    full = task(CREW).instance(3)
    tasks, arcs = full["tasks"], full["arcs"]
    pause = tasks[arcs[:, 1], 0] - tasks[arcs[:, 0], 1]
    assert (pause >= 0).all() and (pause <= 120).all() and (arcs[:, 2] >= pause).all()
    assert len({(i, j) for i, j, _ in arcs.tolist()}) == len(arcs) > 100


CSP = "3 480\n0 10\n10 20\n5 15\n1 2 7\n2 1 5\n"


def test_published_files_are_read(task: GetTask) -> None:
    (found,) = task(CREW).module.read(CSP, "csp3.txt")
    assert (found["K"], found["time_limit"], found["arcs"].tolist()) == (2, 480, [[0, 1, 7]])
    assert found["tasks"].tolist() == [[0, 10], [10, 20], [5, 15]]


def test_the_problem_of_fifty_tasks_is_asked_for_27_to_31_crews(task: GetTask) -> None:
    text = "50 480\n" + "".join(f"{10 * i} {10 * i + 5}\n" for i in range(50))
    assert [one["K"] for one in task(CREW).module.read(text, "csp50.txt")] == [27, 28, 29, 30, 31]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3 480\n0 10\n10 20\n", "ends where a time is due"),
        (CSP + "1 4 7\n", "has a transition 1 4; tasks lie within 1 .. 3"),
        (CSP + "1 3\n", "ends where a cost is due"),
        (CSP.replace("5 15", "15 5"), "does not finish after it starts"),
        (CSP.replace("1 2 7", "1 2 -7"), "line 5: a cost must be within"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError) as caught:
        task(CREW).module.read(text, "csp3.txt")
    assert says in str(caught.value)
