"""Crew scheduling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved

CREW = "optimization/co_bench/crew_scheduling_co_bench"


def case(tasks: list[tuple[int, int]], arcs: list[tuple[int, int, int]], crews: int, limit: int) -> Instance:
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


def tiny(one: Task, seed: int) -> Instance:
    full = one.instance(seed, n_tasks=14)
    first = np.argsort(full["tasks"][:, 0], kind="stable")[:7]  # by their starts, so that chains go up
    name = {int(old): new for new, old in enumerate(first)}
    arcs = [(name[i], name[j], c) for i, j, c in full["arcs"].tolist() if i in name and j in name]
    small = case([tuple(t) for t in full["tasks"][first].tolist()], arcs, 7, 480)
    return small | {"K": one.module._crews_of_a_simple_rule(small)}


def scores(one: Task, small: Instance) -> list[float]:
    covers = (crews for crews in chains(len(small["tasks"])) if len(crews) <= small["K"])
    return [one.module.score(small, crews) for crews in covers if not one.broken(small, crews)]


def moved(one: Task, old: Instance, crews: list[list[int]], rng: np.random.Generator) -> Moved:
    names = rng.permutation(len(old["tasks"]))
    new = old | {"tasks": np.empty_like(old["tasks"]), "arcs": old["arcs"].copy()}
    new["tasks"][names] = old["tasks"] + 250
    new["arcs"][:, :2] = names[old["arcs"][:, :2]]
    new["arcs"][:, 2] *= 3
    return new, [[int(names[t]) for t in chain] for chain in crews[::-1]], 3


CSP = "3 480\n0 10\n10 20\n5 15\n1 2 7\n2 1 5\n"
CASES = [
    Case(
        task=CREW,
        tiny=tiny,
        scores=scores,
        hand=[
            (FOUR, [[0, 1, 3], [2]], 9),
            (FOUR | {"K": 3}, [[0, 1], [], [2, 3]], 11),
            (FOUR | {"K": 4}, [[0], [1], [2], [3]], 0),
        ],
        refused=[
            (FOUR | {"time_limit": 29}, [[0, 1, 3], [2]], "duty of crew 0 lasts 30, longer than the limit 29"),
            (FOUR, [[0, 1, 3]], "task 2 is done by no crew"),
            (FOUR, [[0, 1, 3], [2, 3]], "task 3 is done by crew 0 and again by crew 1"),
            (FOUR, [[0, 1, 3, 3], [2]], "task 3 is done by crew 0 and again by crew 0"),
            (FOUR, [[2, 1], [0, 3]], "crew 0 goes from task 2 to task 1, but task 1 starts at 10"),
            (FOUR | {"arcs": FOUR["arcs"][:3], "K": 3}, [[0, 3], [1], [2]], "that transition is not listed"),
            (FOUR, [[0], [1], [2, 3]], "the crews must have at most 2 entries"),
            (FOUR, [[0, 1, 2, 3, 0], []], "crew 0 must have at most 4 entries"),
            (FOUR, [[0, 1], [2, 4]], "crew 1[1] must be within 0 .. 3"),
            (FOUR, [[0, 1], [2, 3.0]], "crew 1[1] must be an int"),
        ],
        drawn={"n_tasks": 30},
        moved=moved,
        same_bound=False,
        file="csp3.txt",
        read=[
            (CSP, [{"K": 2, "time_limit": 480, "arcs": [[0, 1, 7]], "tasks": [[0, 10], [10, 20], [5, 15]]}]),
            (
                "50 480\n" + "".join(f"{10 * i} {10 * i + 5}\n" for i in range(50)),
                [{"K": 27 + more} for more in range(5)],
            ),
        ],
        unread=[
            ("3 480\n0 10\n10 20\n", "ends where a time is expected"),
            (CSP + "1 4 7\n", "has a transition 1 4"),
            (CSP + "1 3\n", "ends where a cost is expected"),
            (CSP.replace("5 15", "15 5"), "does not finish after it starts"),
            (CSP.replace("1 2 7", "1 2 -7"), "line 5: a cost must be within"),
        ],
    ),
]


def test_the_bound_is_reached_where_duties_are_no_matter() -> None:
    one = task_of(f"llm4ad:{CREW}")
    assert one.judge.best([FOUR]) == 9 and one.judge.best([FOUR | {"K": 4}]) == 0
    old = one.instance(1, n_tasks=30)
    assert one.judge.best([moved(one, old, [], np.random.default_rng(1))[0]]) == 3 * (one.judge.best([old]) or 0)


def test_one_task_needs_one_crew_and_no_transition() -> None:
    one = task_of(f"llm4ad:{CREW}")
    tiny = one.instance(n_tasks=1)
    assert {one.play(one.program(program), tiny) for program in ("template", "reference", "worse")} == {0.0}
    assert one.judge.best([tiny]) == 0 < one.judge.worst([tiny])


def test_transitions_leave_time_for_the_way_and_a_simple_rule_needs_all_crews() -> None:
    one = task_of(f"llm4ad:{CREW}")
    full = one.instance(3)
    tasks, arcs = full["tasks"], full["arcs"]
    pause = tasks[arcs[:, 1], 0] - tasks[arcs[:, 0], 1]
    assert (pause >= 0).all() and (pause <= 120).all() and (arcs[:, 2] >= pause).all()
    assert len({(i, j) for i, j, _ in arcs.tolist()}) == len(arcs) > 100
    assert len(one.module.answer(one.program("template"), full)) == full["K"]
