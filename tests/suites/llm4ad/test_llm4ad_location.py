"""Location: customers to facilities, vertices to medians, demands to warehouses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved, verdicts
from trace_bench.suites.llm4ad import location

BASE = "optimization/co_bench"
STEPWISE = "optimization/cflp_construct"
MEDIAN = f"{BASE}/p_median_uncapacitated_co_bench"
LIMITED_MEDIAN = f"{BASE}/p_median_capacitated_co_bench"
WAREHOUSE = f"{BASE}/uncapacitated_warehouse_location_co_bench"
LIMITED_WAREHOUSE = f"{BASE}/capacitated_warehouse_location_co_bench"
STEPS = {
    "costs": np.array([[1, 9], [2, 9], [3, 9]]), "demands": np.array([4, 5, 6]), "capacities": np.array([10, 30]),
}  # fmt: skip
PATH = {"p": 2, "dist": np.abs(np.arange(5)[:, None] - np.arange(5)[None, :])}
PLACES = np.array([[0, 0], [3, 4], [1, 1], [10, 0]])
SITES = {"fixed_costs": np.array([100, 50, 7]), "costs": np.array([[1, 2, 3], [4, 5, 6]])}
TWO = {
    "capacities": np.array([10, 20]), "fixed_costs": np.array([100, 1000]), "demands": np.array([6, 8]),
    "costs": np.array([[60, 6], [8, 16]]),
}  # fmt: skip


def in_order(*of: int) -> Callable[..., tuple[int, int]]:
    """A rule that serves the customers in turn, customer i from ``of[i]``."""
    return lambda now, left, *_: (left[0], of[left[0]])


def overloading(now: list[list[int]], left: list[int], *rest: Any) -> tuple[int, int]:
    return left[-1], 0


def stepwise_tiny(one: Task, seed: int) -> Instance:
    small = one.instance(seed, n_facilities=3, n_customers=6, max_demand=8)
    return small | {"capacities": small["capacities"] - small["capacities"] // 4}


def stepwise_scores(one: Task, small: Instance) -> list[float]:
    ways = map(list, product(range(3), repeat=6))
    fits = [of for of in ways if (np.bincount(of, small["demands"], minlength=3) <= small["capacities"]).all()]
    return [one.module.score(small, of) for of in fits]


def stepwise_moved(one: Task, old: Instance, of: list[int], rng: np.random.Generator) -> Moved:
    customers, facilities = (rng.permutation(k) for k in old["costs"].shape)
    new = {
        "costs": 5 * old["costs"][np.ix_(customers, facilities)],
        "demands": old["demands"][customers],
        "capacities": old["capacities"][facilities],
    }
    again = one.module.answer(in_order(*np.argsort(facilities)[np.array(of)[customers]].tolist()), new)
    return new, again, 5


def median_moved(one: Task, old: Instance, medians: list[int], rng: np.random.Generator) -> Moved:
    names = rng.permutation(len(old["dist"]))
    return old | {"dist": 5 * old["dist"][np.ix_(names, names)]}, np.argsort(names)[medians].tolist(), 5


def medians(p: int, capacity: int, points: np.ndarray, *demands: int) -> Instance:
    made: Instance = task_of(f"llm4ad:{LIMITED_MEDIAN}").module.made(p, capacity, points, np.array(demands))
    return made


def limited_median_tiny(one: Task, seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    demands = rng.integers(1, 21, 5)
    return medians(2, int(demands.sum()) * 2 // 3, rng.integers(0, 101, (5, 2)), *demands.tolist())


def limited_median_moved(one: Task, old: Instance, of: list[int], rng: np.random.Generator) -> Moved:
    names = rng.permutation(len(of))
    new = medians(old["p"], old["capacity"], old["points"][names] + 30, *old["demands"][names].tolist())
    return new, np.argsort(names)[np.array(of)[names]].tolist(), 1


def warehouse_moved(one: Task, old: Instance, of: Any, rng: np.random.Generator) -> Moved:
    """Of both tasks: a solution is the site of each customer, or a table of amounts."""
    customers, sites = (rng.permutation(k) for k in old["costs"].shape)
    new = {"fixed_costs": 5 * old["fixed_costs"][sites], "costs": 5 * old["costs"][np.ix_(customers, sites)]}
    new |= {"demands": old["demands"][customers]}
    if "capacities" in old:
        return new | {"capacities": old["capacities"][sites]}, of[np.ix_(customers, sites)], 5
    return new, np.argsort(sites)[np.array(of)[customers]].tolist(), 5


def all_sites(small: Instance) -> Iterator[list[int]]:
    n, m = small["costs"].shape if "costs" in small else small["dist"].shape
    yield from map(list, product(range(m), repeat=n))


def best_supply(instance: Instance) -> float:
    """The optimum, by mixed integer programming."""
    costs, demands, capacities = instance["costs"], instance["demands"], instance["capacities"]
    n, m = costs.shape
    each = np.hstack([np.kron(np.eye(n), np.ones(m)), np.zeros((n, m))])
    loads = np.hstack([np.kron(demands, np.eye(m)), -np.diag(capacities)])
    done = milp(
        np.concatenate([costs.ravel(), instance["fixed_costs"]]),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(loads, -np.inf, 0)],
        integrality=np.repeat([0, 1], [n * m, m]),
        bounds=Bounds(0, 1),
    )
    return float(done.fun)


def supplies(one: Task, small: Instance) -> list[float]:
    """The optimum, and what two programs find."""
    return [best_supply(small) - 1e-6, *(one.play(one.program(name), small) for name in ("template", "worse"))]


CAP = "2 3\n 100 7500.5\n {} 0\n 40\n 1.5 2\n 50\n 3 4\n 60\n 5 6\n"
PMED = "4 5 2\n1 2 10\n2 3 4\n3 4 1\n1 4 30\n2 1 3\n"
PMEDCAP = "1\n 7 713\n 3 2 12\n 1 0 0 5\n 2 3 4 6\n 3 50 50 7\n"
LIMITED = "1\n1 1\n4 2 {}\n1 0 0 4\n2 3 4 5\n3 1 1 6\n4 10 0 7\n"
CASES = [
    Case(
        task=STEPWISE,
        tiny=stepwise_tiny,
        scores=stepwise_scores,
        close=1.1,
        tight=0.8,
        hand=[(STEPS, in_order(0, 1, 0), 1 + 9 + 3)],
        refused=[
            (STEPS, overloading, "customer 1 demands 5, and facility 0 has only 4 left of its capacity 10"),
            (STEPS, (0, 1), "step 1: customer 0 is assigned already"),
            (STEPS, (0, 2), "the facility of step 0 must be within 0 .. 1"),
            (STEPS, (-1, 1), "the customer of step 0 must be within 0 .. 2"),
            (STEPS, (0, 1, 1), "must have 2 entries"),
            (STEPS, (0, 1.0), "must be an int"),
        ],
        drawn={"n_facilities": 10, "n_customers": 10},
        moved=stepwise_moved,
        same_bound=False,
    ),
    Case(
        task=MEDIAN,
        tiny=lambda one, seed: one.instance(seed, problem_size=10) | {"p": 3},
        scores=verdicts(lambda small: map(list, combinations(range(len(small["dist"])), 3))),
        close=1.05,
        tight=0.8,
        hand=[(PATH, [1, 4], 1 + 0 + 1 + 1 + 0)],
        refused=[
            (PATH, [1], "1 vertices are chosen as medians, and they must be exactly 2"),
            (PATH, [0, 1, 2], "exactly 2"),
            (PATH, [3, 3], "name 3 twice"),
            (PATH, [4, 5], "within 0 .. 4"),
            (PATH, [0, 1, 2, 3, 4, 5], "at most 5 entries"),
        ],
        drawn={"problem_size": 30},
        moved=median_moved,
        same_bound=False,
        file="pmed1.txt",
        read=[
            (PMED, [{"p": 2, "dist": [[0, 3, 7, 8], [3, 0, 4, 5], [7, 4, 0, 1], [8, 5, 1, 0]]}]),
            ("1 0 1", [{"dist": [[0]]}]),
        ],
        unread=[
            (PMED + "9", "line 7: '9' is more"),
            ("4 1 2\n1 5 3", "within 1 .. 4"),
            ("3 1 1\n1 2 3\n", "no path joins"),
            ("0 0 0", "number of vertices"),
        ],
    ),
    Case(
        task=LIMITED_MEDIAN,
        tiny=limited_median_tiny,
        scores=verdicts(lambda small: (of for of in all_sites(small) if len(set(of)) <= 2)),
        close=1.2,
        tight=0.5,
        hand=[(LIMITED.format(18), [0, 0, 0, 3], 0 + 5 + 1 + 0), (LIMITED.format(18), [3, 3, 2, 2], 10 + 8 + 0 + 9)],
        refused=[
            (LIMITED.format(18), [0, 1, 2, 2], "3 customers serve as medians, and they may be at most 2"),
            (LIMITED.format(11), [0, 0, 3, 3], "median 3 has capacity 11 and its 2 customers take 13, 2 too much"),
            (LIMITED.format(18), [0, 0, 0], "must have 4 entries"),
            (LIMITED.format(18), [0, 0, 0, 4], "within 0 .. 3"),
        ],
        drawn={"problem_size": 30},
        moved=limited_median_moved,
        same_bound=False,
        file="pmedcap1.txt",
        read=[
            (PMEDCAP, [{"p": 2, "capacity": 12, "demands": [5, 6, 7], "dist": [[0, 5, 70], [5, 0, 65], [70, 65, 0]]}])
        ],
        unread=[
            (PMEDCAP + "1", "line 7: '1' is more"),
            (PMEDCAP[:-3], "ends where a customer's number"),
            ("1\n1 1\n3 4 12\n", "medians must be within 0 .. 3"),
            ("0", "number of problems"),
            ("1 1 1 1 0 5 1 0 0 1", "number of medians"),
            ("1 1 1 1 1 5 1 0 0 0", "customer 1 demands 0"),
            ("1 1 1 1 1 5 1 0 0 6", "customer 1 demands 6, more than the capacity 5"),
            ("1 1 1 2 1 5 1 0 0 3 2 0 0 3", "demands of 6 exceed"),
            ("1 1 1 1 1 5 1 1e300 0 1", "a coordinate beyond 1000000"),
        ],
    ),
    Case(
        task=WAREHOUSE,
        tiny={"n_warehouses": 4, "n_customers": 5},
        scores=verdicts(all_sites),
        close=1.02,
        tight=0.9,
        hand=[(SITES, [0, 1], 100 + 50 + 1 + 5), (SITES, [2, 2], 7 + 3 + 6)],
        refused=[
            (SITES, [0, 1, 2], "must have 2 entries"),
            (SITES, [0, 3], "within 0 .. 2"),
            (SITES, [[1, 0, 0], [0, 1, 0]], "must be an int"),
        ],
        drawn={"n_warehouses": 8, "n_customers": 15},
        moved=warehouse_moved,
        same_bound=False,
        file="capa.txt",
        read=[(CAP.format("capacity"), [{"fixed_costs": [7500.5, 0], "costs": [[1.5, 2], [3, 4], [5, 6]]}])],
        unread=[
            ("1 3 1 1 1 1 1 1", "ends where the demand of customer 3"),
            ("1 0 5 5", "number of customers"),
            ("0 1 5", "number of warehouses"),
        ],
    ),
    Case(
        task=LIMITED_WAREHOUSE,
        tiny={"n_warehouses": 6, "n_customers": 8},
        scores=supplies,
        close=1.05,
        tight=0.75,
        hand=[
            (TWO, [[2, 4], [8, 0]], 1100 + 60 / 3 + 6 * 2 / 3 + 8),
            (TWO, np.array([[0, 6], [0, 8]]), 1000 + 6 + 16),
            (TWO | {"demands": np.array([0, 8])}, [[0, 0], [8, 0]], 108),
        ],
        refused=[
            (TWO, [[2, 3.9], [8, 0]], "customer 0 demands 6 and gets 5.9"),
            (TWO, [[6, 0], [4.5, 3.5]], "warehouse 0 has capacity 10 and supplies 10.5, 0.5 too much"),
            (TWO, [[-1, 7], [8, 0]], "customer 0 gets -1 from warehouse 0"),
            (TWO, [[1e308, 1e308], [8, 0]], "customer 0 demands 6 and gets inf"),
            (TWO | {"demands": np.array([0, 8])}, [[1, 0], [8, 0]], "customer 0 demands 0 and gets 1"),
            (TWO, [[6, 0]], "must have 2 entries"),
            (TWO, np.zeros((2, 3)), "must have shape (2, 2)"),
            (TWO, [[6, 0], [float("nan"), 8]], "must be finite"),
        ],
        drawn={"n_warehouses": 8, "n_customers": 12},
        moved=warehouse_moved,
        same_bound=False,
        file="capa-8000.txt",
        read=[
            (CAP.format(90), [{"capacities": [100, 90], "demands": [40, 50, 60]}]),
            (CAP.format("capacity"), [{"capacities": [100, 8000]}]),
        ],
        unread=[
            (CAP.format(49), "demands of 150 exceed"),
            (CAP.format(90) + "1", "line 10: '1' is more"),
            ("2 3 1", "ends where the fixed cost"),
            ("1 1 5 5 0 1", "has a demand of 0"),
            ("1 1 5 5 1.5 1", "has a demand of 1.5"),
            ("1 1 5.5 5 1 1", "has a capacity of 5.5"),
            ("2 1 5 5 -1 5 1 1 1", "has a capacity of -1"),
            ("1 1 3e6 5 2e6 1", "demands add up to 2000000"),
            ("1 1 5 5 1 -1", "has a cost below 0"),
        ],
    ),
]


@given(seed=st.integers(0, 2**32), sites=st.sampled_from([None, 1, 2]), limited=st.booleans())
def test_no_solution_is_below_the_lagrangian_bound(seed: int, sites: int | None, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    costs, opening = rng.integers(0, 20, (3, 4)), rng.integers(0, 30, 3)
    weights, capacities = rng.integers(1, 6, (3, 4)), rng.integers(2, 15, 3)
    limits = {"weights": weights, "capacities": capacities.astype(float)} if limited else {}
    bound = location.lagrangian_bound(costs, opening=opening, sites=sites, **limits)
    for of in product(range(3), repeat=4):
        loads = np.bincount(of, weights[of, np.arange(4)], minlength=3)
        used = sorted(set(of))
        if (sites is None or len(used) <= sites) and (not limited or (loads <= capacities).all()):
            assert bound <= costs[of, np.arange(4)].sum() + opening[used].sum() + 1e-9


def test_a_rule_sees_who_is_served_who_is_left_and_the_room_there_is() -> None:
    seen: list[Any] = []

    def rule(now: list[list[int]], left: list[int], *rest: Any) -> tuple[int, int]:
        seen.append((now, left, rest[0].tolist()))
        assert rest[2].tolist() == [[1, 2, 3], [9, 9, 9]], "a row for each facility"
        return (left[-1], 0) if len(left) > 2 else (left[0], 1)

    task_of(f"llm4ad:{STEPWISE}").play(rule, STEPS)
    assert seen[:2] == [([[], []], [0, 1, 2], [10, 30]), ([[2], []], [0, 1], [4, 30])]


@given(seed=st.integers(0, 2**32), facilities=st.integers(1, 8), customers=st.integers(1, 12))
def test_whatever_is_chosen_some_facility_has_room(seed: int, facilities: int, customers: int) -> None:
    one, rng = task_of(f"llm4ad:{STEPWISE}"), np.random.default_rng(seed)
    instance = one.instance(seed, n_facilities=facilities, n_customers=customers)

    def tightest(now: list[int], left: list[int], room: np.ndarray, demands: np.ndarray, _: Any) -> tuple[int, int]:
        customer = int(rng.choice(left))
        fits = room >= demands[customer]
        return customer, int(np.where(fits, room, 10**9).argmin()) if fits.any() else -1

    assert one.module.bound(instance) <= one.play(tightest, instance) <= one.module.worst(instance)


def test_the_program_is_not_told_the_best_known_value_that_its_score_is_measured_by() -> None:
    one = task_of(f"llm4ad:{LIMITED_MEDIAN}")
    (made,) = one.module.read(PMEDCAP, "pmedcap1.txt")
    seen: list[Any] = []
    near = one.play(lambda *args: seen.extend(args) or [0, 0, 2], made)  # type: ignore[func-returns-value]
    assert near == 5 and seen[:3] == [3, 2, 12] and seen[3].tolist() == [[0, 0], [3, 4], [50, 50]]
    assert seen[4].tolist() == [5, 6, 7]
    assert one.judge.normalised(made, 1426.0) == 0.5


def test_shortest_paths_are_those_of_floyd_and_a_length_may_be_zero() -> None:
    rng = np.random.default_rng(5)
    edges = [(i, int(rng.integers(i)), float(rng.integers(0, 4))) for i in range(1, 30)]
    edges += [(int(u), int(v), float(rng.integers(0, 4))) for u, v in rng.integers(30, size=(40, 2)) if u != v]
    floyd = np.where(np.eye(30, dtype=bool), 0, np.inf)
    for u, v, length in edges:
        floyd[u, v] = floyd[v, u] = min(floyd[u, v], length)
    for k in range(30):
        floyd = np.minimum(floyd, floyd[:, k, None] + floyd[None, k, :])
    found = task_of(f"llm4ad:{MEDIAN}").module._shortest(30, edges)
    assert found.dtype == np.int64 and found.tolist() == floyd.tolist()


def test_the_tolerance_of_supplies_gains_nothing() -> None:
    one = task_of(f"llm4ad:{LIMITED_WAREHOUSE}")
    tight = TWO | {"capacities": np.array([10, 4]), "fixed_costs": np.array([0, 0])}
    honest = one.verdict(tight, np.array([[2, 4], [8, 0.0]])).score
    assert honest == pytest.approx(best_supply(tight))
    less = one.verdict(tight, np.array([[2, 4 - 4e-6], [8, 0.0]])).score
    more = one.verdict(tight, np.array([[2 - 3e-6, 4 + 3e-6], [8, 0.0]])).score
    assert honest - 1e-9 <= min(less, more) and max(less, more) < honest + 1e-2
    dust = one.verdict(TWO, np.array([[1e-9, 6], [-1e-9, 8 + 1e-9]])).score
    assert dust == pytest.approx(1022), "a trace of supply does not open a warehouse"


def test_ways_are_one_to_three_times_as_long_as_distances_where_capacities_do_not_limit() -> None:
    for name, longest in ((WAREHOUSE, 3.0), (LIMITED_WAREHOUSE, 1.0)):
        made = task_of(f"llm4ad:{name}").instance(3, size="small")
        between = made["customers"][:, None, :] - made["sites"][None, :, :]
        plain = made["demands"][:, None] * np.sqrt((between**2).sum(axis=2)) / 10
        assert (made["costs"] >= np.maximum(1, plain - 0.5)).all()
        assert (made["costs"] <= np.maximum(1, longest * plain + 0.5)).all()
        assert ((made["costs"] > 2 * plain + 1).any()) == (longest > 2)
