"""Assignment problems: linear, generalised, quadratic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved, verdicts
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import location

LINEAR = "optimization/co_bench/assignment_problem_co_bench"
GENERAL = "optimization/co_bench/generalised_assignment_problem_co_bench"
QUADRATIC = "optimization/qap_construct"
THREE = {"n": 3, "costs": np.array([[1, 20, 300], [4, 50, 600], [7, 80, 900]])}
FLOWS = {
    "flows": np.array([[0, 3, 0], [3, 0, 1], [0, 1, 0]]),
    "distances": np.array([[0, 1, 9], [1, 0, 5], [9, 5, 0]]),
    "points": np.zeros((3, 2)),
}


def of_two(*capacities: int) -> Instance:
    return {
        "costs": np.array([[1, 2, 4], [10, 20, 40]]),
        "uses": np.array([[3, 4, 5], [1, 1, 1]]),
        "capacities": np.array(capacities),
    }


def placing(*at: int) -> Callable[..., tuple[int, int]]:
    """A rule that ends with the placement `at`."""
    return lambda now, *_: (now.index(-1), at[now.index(-1)])


def spoiling(now: list[int], *_: Any) -> tuple[int, int]:
    """A rule that places facility i at i and overwrites what it is shown."""
    step = 3 - now.count(-1)
    now[:] = [2] * 3
    return step, step


def all_placements(instance: Instance) -> Iterator[list[int]]:
    yield from map(list, permutations(range(len(instance["costs" if "costs" in instance else "flows"]))))


def all_agents(instance: Instance) -> Iterator[list[int]]:
    m, n = instance["costs"].shape
    yield from map(list, product(range(m), repeat=n))


def linear_moved(one: Task, old: Instance, agents: list[int], rng: np.random.Generator) -> Moved:
    rows, columns = rng.permutation(old["n"]), rng.permutation(old["n"])
    new = {"n": old["n"], "costs": 7 * old["costs"][np.ix_(rows, columns)]}
    return new, np.argsort(columns)[np.array(agents)[rows]].tolist(), 7


def general_moved(one: Task, old: Instance, agents: list[int], rng: np.random.Generator) -> Moved:
    names, jobs = (rng.permutation(k) for k in old["costs"].shape)
    new = {
        "costs": old["costs"][np.ix_(names, jobs)] * 3,
        "uses": old["uses"][np.ix_(names, jobs)],
        "capacities": old["capacities"][names],
    }
    return new, np.argsort(names)[np.array(agents)[jobs]].tolist(), 3


def quadratic_moved(one: Task, old: Instance, at: list[int], rng: np.random.Generator) -> Moved:
    names = rng.permutation(len(at))
    new = old | {"flows": old["flows"][np.ix_(names, names)], "distances": old["distances"] * 9}
    return new, np.array(at)[names].tolist(), 9


GAP = "1\n 2 3\n 9 8 7\n 1 2 3\n 4 5 6\n 6 5 4\n 10 11\n"
CASES = [
    Case(
        task=LINEAR,
        tiny={"problem_size": 6},
        scores=verdicts(all_placements),
        tight=1,
        hand=[(THREE, [2, 0, 1], 300 + 4 + 80)],
        refused=[
            (THREE, [0, 1, 1], "names 1 twice"),
            (THREE, [0, 1], "must have 3 entries"),
            (THREE, [1, 2, 3], "within 0 .. 2"),
            (THREE, [0, 1, 2.0], "must be an int"),
        ],
        drawn={"problem_size": 12},
        moved=linear_moved,
        read=[("2\n 3 5\n 7\n 11\n", [{"n": 2, "costs": [[3, 5], [7, 11]]}]), ("1 0.5", [{"costs": [[0.5]]}])],
        unread=[("0", "number of items"), ("2 1 2 3", "costs of item 2"), ("2\n1 2 3 4\n5", "line 3: '5' is more")],
    ),
    Case(
        task=GENERAL,
        tiny={"n_agents": 3, "n_jobs": 6},
        scores=verdicts(all_agents),
        close=1.2,
        hand=[(of_two(7, 1), [0, 0, 1], 1 + 2 + 40)],
        refused=[
            (of_two(6, 1), [0, 0, 1], "agent 0 has capacity 6 and its 2 jobs take 7, 1 too much"),
            (of_two(7, 1), [1, 0, 2], "within 0 .. 1"),
            (of_two(7, 1), [0, 0, 1, 1], "must have 3 entries"),
        ],
        drawn={"n_agents": 6, "n_jobs": 20},
        moved=general_moved,
        same_bound=False,
        file="gapa.txt",
        read=[
            (GAP, [{"costs": [[9, 8, 7], [1, 2, 3]], "uses": [[4, 5, 6], [6, 5, 4]], "capacities": [10, 11]}]),
        ],
        unread=[
            (GAP[:-4], "ends where a capacity"),
            ("0", "number of problems"),
            ("1 1 0 5", "number of jobs"),
            ("1 0 1 5", "number of agents"),
            ("1\n2.5 3", "line 2: the number of agents"),
            ("1 2 1 1 1 1 1 5 -1", "capacity -1"),
            ("1 1 2 1 1 1 7 5", "job 2 takes more"),
            ("1\n1 1\n1\n1\n5\n6", "line 6: '6' is more"),
        ],
    ),
    Case(
        task=QUADRATIC,
        tiny={"problem_size": 5},
        scores=verdicts(all_placements),
        close=1.1,
        tight=0.4,
        hand=[
            (FLOWS, placing(0, 1, 2), 2 * (3 * 1 + 1 * 5)),
            (FLOWS, placing(0, 2, 1), 2 * (3 * 9 + 1 * 5)),
            (FLOWS, spoiling, 2 * (3 * 1 + 1 * 5)),
        ],
        refused=[
            (FLOWS, lambda now, *_: (0, now.count(-1) % 3), "step 1: facility 0 has a location already"),
            (FLOWS, lambda now, *_: (now.index(-1), 2), "step 1: location 2 is taken by facility 0"),
            (FLOWS, [0], "step 0 must have 2 entries"),
            (FLOWS, (0, -1), "within 0 .. 2"),
        ],
        drawn={"problem_size": 9},
        moved=quadratic_moved,
    ),
]


@pytest.mark.parametrize("name", ["worse", "template", "reference"])
def test_programs_keep_capacities_that_the_least_consumption_does_not(name: str) -> None:
    """As in OR-Library's gap files: both jobs take least of the first agent, which has room for one."""
    one = task_of(f"llm4ad:{GENERAL}")
    (made,) = one.module.read("1\n2 2\n5 5\n9 9\n3 3\n4 4\n5 5\n", "gapa.txt")
    assert one.play(one.program(name), made) == 14


def test_arguments_come_in_the_order_of_the_statement() -> None:
    seen: list[Any] = []
    task_of(f"llm4ad:{GENERAL}").play(lambda *args: seen.extend(args) or [1, 1, 1], of_two(0, 3))  # type: ignore[func-returns-value]
    assert seen[:2] == [2, 3] and seen[2][1, 2] == 40 and seen[3][0, 2] == 5 and seen[4].tolist() == [0, 3]


def test_the_name_of_a_file_tells_whether_it_holds_profits_which_are_turned_into_costs() -> None:
    read = task_of(f"llm4ad:{GENERAL}").module.read
    for name in ("gap12.txt", "GAP12.TXT"):
        assert read(GAP, name)[0]["costs"].tolist() == [[0, 1, 2], [8, 7, 6]]
    for name in ("gap.txt", "gaping.txt"):
        with pytest.raises(DataError, match="does not tell profits from costs"):
            read(GAP, name)


def test_the_bound_of_quadratic_assignment_counts_flows_within_a_facility() -> None:
    flows, distances = np.array([[5, 1], [2, 7]]), np.array([[1, 3], [4, 2]])
    costs = [(flows * distances[np.ix_(p, p)]).sum() for p in ([0, 1], [1, 0])]
    assert location.pairing_bound(flows, distances) <= min(costs)
    assert location.pairing_bound(flows, distances, most=True) >= max(costs)


def test_generated_generalised_instances_are_of_the_three_types_of_the_statement() -> None:
    seen = set()
    for seed in range(9):
        made = task_of(f"llm4ad:{GENERAL}").instance(seed, n_agents=6, n_jobs=20)
        costs, uses = made["costs"], made["uses"]
        is_c = uses.min() >= 5 and uses.max() <= 25 and costs.min() >= 10 and costs.max() <= 50
        is_d = uses.min() >= 1 and uses.max() <= 100 and np.abs(costs + uses - 111).max() <= 10
        high, low = np.floor(1000 / uses), np.floor(1000 / (uses + 1) - 10)
        is_e = bool((costs >= np.maximum(1, low)).all() and (costs <= np.maximum(1, high)).all())
        assert [is_c, is_d, is_e].count(True) == 1, seed
        seen.add((is_c, is_d, is_e))
        thrifty = uses.argmin(axis=0).tolist()
        assert task_of(f"llm4ad:{GENERAL}").broken(made, thrifty) == [], "the solution that the statement names"
    assert len(seen) == 3
