"""Location: customers to facilities, vertices to medians, demands to warehouses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import location

GetTask = Callable[[str], Task]
STEPWISE = "llm4ad:optimization/cflp_construct"
MEDIAN = "llm4ad:optimization/co_bench/p_median_uncapacitated_co_bench"
LIMITED_MEDIAN = "llm4ad:optimization/co_bench/p_median_capacitated_co_bench"
WAREHOUSE = "llm4ad:optimization/co_bench/uncapacitated_warehouse_location_co_bench"
LIMITED_WAREHOUSE = "llm4ad:optimization/co_bench/capacitated_warehouse_location_co_bench"


# -- the bound by Lagrangian relaxation


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
            cost = costs[of, np.arange(4)].sum() + opening[used].sum()
            assert bound <= cost + 1e-9


# -- customer by customer


def in_order(of: list[int]) -> Callable[..., tuple[int, int]]:
    return lambda now, left, *_: (left[0], of[left[0]])


def small_cflp(one: Task, seed: int) -> dict[str, Any]:
    return one.instance(seed, n_facilities=3, n_customers=6, max_demand=8)


@pytest.mark.parametrize("seed", range(3))
def test_stepwise_no_assignment_beats_the_bound_and_the_reference_is_close_to_the_best(
    seed: int, task: GetTask
) -> None:
    one = task(STEPWISE)
    small = small_cflp(one, seed)
    small["capacities"] = small["capacities"] - small["capacities"] // 4
    fits = [
        list(of)
        for of in product(range(3), repeat=6)
        if (np.bincount(of, small["demands"], minlength=3) <= small["capacities"]).all()
    ]
    scores = [one.play(in_order(of), small) for of in fits]
    bound = one.judge.best([small])
    assert bound is not None and 0.8 * min(scores) < bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.1 * min(scores)


def test_stepwise_each_rule_by_itself(task: GetTask) -> None:
    one = task(STEPWISE)
    small = {
        "costs": np.array([[1, 9], [2, 9], [3, 9]]), "demands": np.array([4, 5, 6]), "capacities": np.array([10, 30]),
    }  # fmt: skip
    seen: list[Any] = []

    def rule(now: list[list[int]], left: list[int], *rest: Any) -> tuple[int, int]:
        seen.append((now, left, rest[0].tolist()))
        assert rest[2].tolist() == [[1, 2, 3], [9, 9, 9]], "a row for each facility"
        return (left[-1], 0) if len(left) > 1 else (left[0], 1)

    assert "customer 1 demands 5, and facility 0 has only 4 left of its capacity 10" in one.refusal(small, rule)
    assert seen == [([[], []], [0, 1, 2], [10, 30]), ([[2], []], [0, 1], [4, 30])]
    assert one.play(in_order([0, 1, 0]), small) == 1 + 9 + 3
    assert "step 1: customer 0 is assigned already, to facility 1" in one.refusal(small, lambda *_: (0, 1))
    assert "the facility of step 0 must be within 0 .. 1" in one.refusal(small, lambda *_: (0, 2))
    assert "the customer of step 0 must be within 0 .. 2" in one.refusal(small, lambda *_: (-1, 1))
    assert "must have 2 entries, not 3" in one.refusal(small, lambda *_: (0, 1, 1))
    assert "must be an int, not the number 1.0" in one.refusal(small, lambda *_: (0, 1.0))
    assert "must be a list, not None" in one.refusal(small, lambda *_: None)


@given(seed=st.integers(0, 2**32), facilities=st.integers(1, 8), customers=st.integers(1, 12))
def test_stepwise_whatever_is_chosen_some_facility_has_room(seed: int, facilities: int, customers: int) -> None:
    one, rng = task_of(STEPWISE), np.random.default_rng(seed)
    instance = one.instance(seed, n_facilities=facilities, n_customers=customers)

    def tightest(now: list[int], left: list[int], room: np.ndarray, demands: np.ndarray, _: Any) -> tuple[int, int]:
        customer = int(rng.choice(left))
        fits = room >= demands[customer]
        return customer, int(np.where(fits, room, 10**9).argmin()) if fits.any() else -1

    score = one.play(tightest, instance)
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 9))
def test_stepwise_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(STEPWISE), np.random.default_rng(seed)
    instance = one.instance(seed, n_facilities=10, n_customers=10)
    of = one.module.answer(one.program("template"), instance)
    score = one.verdict(instance, of).score
    customers, facilities = rng.permutation(10), rng.permutation(10)
    renamed = {
        "costs": scale * instance["costs"][np.ix_(customers, facilities)],
        "demands": instance["demands"][customers],
        "capacities": instance["capacities"][facilities],
    }
    assert one.play(in_order(np.argsort(facilities)[np.array(of)[customers]].tolist()), renamed) == scale * score


# -- medians


@pytest.mark.parametrize("seed", range(4))
def test_median_no_choice_beats_the_bound_and_the_reference_finds_the_best(seed: int, task: GetTask) -> None:
    one = task(MEDIAN)
    small = one.instance(seed, problem_size=12)
    small["p"] = 3
    scores = [one.verdict(small, list(c)).score for c in combinations(range(len(small["dist"])), 3)]
    bound = one.judge.best([small])
    assert bound is not None and 0.8 * min(scores) < bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.05 * min(scores)


def test_median_by_hand_and_each_rule_by_itself(task: GetTask) -> None:
    one = task(MEDIAN)
    path = {"p": 2, "dist": np.abs(np.arange(5)[:, None] - np.arange(5)[None, :])}
    assert one.play(lambda n, p, dist: [1, 4], path) == 1 + 0 + 1 + 1 + 0
    assert one.broken(path, [1]) == ["1 vertices are chosen as medians, and they must be exactly 2"]
    assert one.broken(path, [0, 1, 2]) == ["3 vertices are chosen as medians, and they must be exactly 2"]
    assert "name 3 twice" in one.refusal(path, lambda *_: [3, 3])
    assert "within 0 .. 4, not the integer 5" in one.refusal(path, lambda *_: [4, 5])
    assert "at most 5 entries, not 6" in one.refusal(path, lambda *_: [0, 1, 2, 3, 4, 5])
    assert "must be a list, not a dict" in one.refusal(path, lambda *_: {"medians": [1, 4]})


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 9))
def test_median_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(MEDIAN), np.random.default_rng(seed)
    instance = one.instance(seed, problem_size=30)
    dist, n = instance["dist"], len(instance["dist"])
    assert (dist == dist.T).all() and (dist[:, :, None] <= dist[:, None, :] + dist.T[None, :, :]).all()
    names = rng.permutation(n)
    medians = one.module.answer(one.program("template"), instance)
    renamed = {"p": instance["p"], "dist": scale * dist[np.ix_(names, names)]}
    score = one.verdict(instance, medians).score
    assert one.verdict(renamed, np.argsort(names)[medians].tolist()).score == scale * score
    assert one.module.bound(instance) <= score


def test_median_published_files_are_read_and_the_last_of_two_lengths_counts(task: GetTask) -> None:
    text = "4 5 2\n1 2 10\n2 3 4\n3 4 1\n1 4 30\n2 1 3\n"
    (made,) = task(MEDIAN).module.read(text, "pmed1.txt")
    assert made["p"] == 2
    assert made["dist"].tolist() == [[0, 3, 7, 8], [3, 0, 4, 5], [7, 4, 0, 1], [8, 5, 1, 0]]
    for wrong, says in ((text + "9", "line 7: '9' is more"), ("4 1 2\n1 5 3", "ends must lie within 1 .. 4"),
                        ("3 1 1\n1 2 3\n", "vertices that no path joins")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            task(MEDIAN).module.read(wrong, "pmed1.txt")


# -- medians with capacities


@pytest.mark.parametrize("seed", range(3))
def test_limited_median_no_assignment_beats_the_bound_and_the_reference_is_close(seed: int, task: GetTask) -> None:
    one, rng = task(LIMITED_MEDIAN), np.random.default_rng(seed)
    demands = rng.integers(1, 21, 6)
    small = one.module.made(2, int(demands.sum()) * 2 // 3, rng.integers(0, 101, (6, 2)), demands)
    valid = [list(of) for of in product(range(6), repeat=6) if len(set(of)) <= 2]
    scores = [one.verdict(small, of).score for of in valid if not one.broken(small, of)]
    bound = one.judge.best([small])
    assert bound is not None and 0.6 * min(scores) < bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.2 * min(scores)


def test_limited_median_by_hand_and_each_rule_by_itself(task: GetTask) -> None:
    one = task(LIMITED_MEDIAN)
    points = np.array([[0, 0], [3, 4], [1, 1], [10, 0]])
    small = one.module.made(2, 10, points, np.array([4, 5, 6, 7]))
    assert small["dist"][0].tolist() == [0, 5, 1, 10], "rounded down"
    seen: list[Any] = []
    big = one.module.made(2, 18, points, np.array([4, 5, 6, 7]))
    assert one.play(lambda *args: seen.extend(args) or [0, 0, 0, 3], big) == 0 + 5 + 1 + 0  # type: ignore[func-returns-value]
    assert seen[:3] == [4, 2, 18] and seen[3].tolist() == points.tolist() and seen[4].tolist() == [4, 5, 6, 7]
    assert one.broken(big, [0, 1, 2, 2]) == ["3 customers serve as medians, and they may be at most 2"]
    assert one.broken(small, [0, 0, 3, 3]) == ["median 3 has capacity 10 and its 2 customers take 13, 3 too much"]
    assert one.broken(big, [3, 3, 2, 2]) == [], "a median may be served by another"
    assert "must have 4 entries, not 3" in one.refusal(big, lambda *_: [0, 0, 0])
    assert "within 0 .. 3, not the integer 4" in one.refusal(big, lambda *_: [0, 0, 0, 4])


def test_limited_median_the_program_is_not_told_the_best_known_value_and_less_cost_is_better(task: GetTask) -> None:
    text = "1\n 7 713\n 3 2 12\n 1 0 0 5\n 2 3 4 6\n 3 50 50 7\n"
    one = task(LIMITED_MEDIAN)
    (made,) = one.module.read(text, "pmedcap1.txt")
    assert (made["p"], made["capacity"], made["demands"].tolist()) == (2, 12, [5, 6, 7])
    assert made["dist"].tolist() == [[0, 5, 70], [5, 0, 65], [70, 65, 0]]
    seen: list[Any] = []
    near = one.play(lambda *args: seen.extend(args) or [0, 0, 2], made)  # type: ignore[func-returns-value]
    assert near == 5 and 713 not in seen[:3] and one.judge.normalised(made, 1426.0) == 0.5
    assert one.spec.score.direction == "minimize" and one.judge.normalised(made, near) > one.judge.normalised(made, 9)
    for wrong, says in ((text + "1", "line 7: '1' is more"), (text[:-3], "ends where a customer's number"),
                        ("1\n1 1\n3 4 12\n", "number of medians must be within 0 .. 3")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            one.module.read(wrong, "pmedcap1.txt")


@given(seed=st.integers(0, 2**32), shift=st.integers(-50, 50))
def test_limited_median_any_order_fits_and_other_names_change_nothing(seed: int, shift: int) -> None:
    one, rng = task_of(LIMITED_MEDIAN), np.random.default_rng(seed)
    instance = one.instance(seed, problem_size=30)
    n, p = len(instance["dist"]), instance["p"]
    medians, room, of = rng.choice(n, p, replace=False), np.full(p, instance["capacity"]), np.zeros(n, dtype=int)
    for customer in rng.permutation(n):
        number = int(room.argmax())
        room[number] -= instance["demands"][customer]
        of[customer] = medians[number]
    score = one.verdict(instance, of.tolist()).score
    names = rng.permutation(n)
    renamed = one.module.made(p, instance["capacity"], instance["points"][names] + shift, instance["demands"][names])
    assert one.verdict(renamed, np.argsort(names)[of[names]].tolist()).score == score
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


# -- warehouses


@pytest.mark.parametrize("seed", range(3))
def test_warehouse_no_assignment_beats_the_bound_and_the_reference_finds_the_best(seed: int, task: GetTask) -> None:
    one = task(WAREHOUSE)
    small = one.instance(seed, n_warehouses=4, n_customers=5)
    n, m = small["costs"].shape
    scores = [one.verdict(small, list(of)).score for of in product(range(m), repeat=n)]
    bound = one.judge.best([small])
    assert bound is not None and 0.9 * min(scores) < bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.02 * min(scores)


def test_warehouse_by_hand_and_answers_that_are_none(task: GetTask) -> None:
    one = task(WAREHOUSE)
    small = {"fixed_costs": np.array([100, 50, 7]), "costs": np.array([[1, 2, 3], [4, 5, 6]])}
    assert one.play(lambda m, n, fixed, costs: [0, 1], small) == 100 + 50 + 1 + 5
    assert one.play(lambda *_: [2, 2], small) == 7 + 3 + 6
    assert "must have 2 entries, not 3" in one.refusal(small, lambda *_: [0, 1, 2])
    assert "within 0 .. 2, not the integer 3" in one.refusal(small, lambda *_: [0, 3])
    assert "must be an int, not a list of length 3" in one.refusal(small, lambda *_: [[1, 0, 0], [0, 1, 0]])


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 9))
def test_warehouse_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(WAREHOUSE), np.random.default_rng(seed)
    instance = one.instance(seed, n_warehouses=8, n_customers=15)
    n, m = instance["costs"].shape
    customers, sites, of = rng.permutation(n), rng.permutation(m), rng.integers(0, m, n)
    renamed = {
        "fixed_costs": scale * instance["fixed_costs"][sites],
        "costs": scale * instance["costs"][np.ix_(customers, sites)],
    }
    score = one.verdict(instance, of.tolist()).score
    assert one.verdict(renamed, np.argsort(sites)[of[customers]].tolist()).score == scale * score
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


CAP = "2 3\n 100 7500.5\n {} 0\n 40\n 1.5 2\n 50\n 3 4\n 60\n 5 6\n"


def test_warehouse_published_files_are_read_with_or_without_capacities(task: GetTask) -> None:
    (free,) = task(WAREHOUSE).module.read(CAP.format("capacity"), "capa.txt")
    assert free["fixed_costs"].tolist() == [7500.5, 0] and free["costs"].tolist() == [[1.5, 2], [3, 4], [5, 6]]
    one = task(LIMITED_WAREHOUSE)
    (limited,) = one.module.read(CAP.format(90), "cap41.txt")
    (named,) = one.module.read(CAP.format("capacity"), "capa-8000.txt")
    assert named["capacities"].tolist() == [100, 8000]
    assert limited["capacities"].tolist() == [100, 90] and limited["demands"].tolist() == [40, 50, 60]
    for wrong, says in ((CAP.format("capacity"), "name the file with its capacity"),
                        (CAP.format(49), "demands of 150 exceed all capacities together, 149"),
                        (CAP.format(90) + "1", "line 10: '1' is more"),
                        ("2 3 1", "ends where the fixed cost")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            one.module.read(wrong, "cap41.txt")
    with pytest.raises(DataError, match="ends where the demand of customer 3"):
        task(WAREHOUSE).module.read("1 3 1 1 1 1 1 1", "cap71.txt")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (MEDIAN, "0 0 0", "the number of vertices must be above zero"),
        (LIMITED_MEDIAN, "0", "the number of problems must be above zero"),
        (LIMITED_MEDIAN, "1 1 1 1 0 5 1 0 0 1", "the number of medians must be above zero"),
        (LIMITED_MEDIAN, "1 1 1 1 1 5 1 0 0 0", "customer 1 demands 0; demands must be above 0"),
        (LIMITED_MEDIAN, "1 1 1 1 1 5 1 0 0 6", "customer 1 demands 6, more than the capacity 5"),
        (LIMITED_MEDIAN, "1 1 1 2 1 5 1 0 0 3 2 0 0 3", "demands of 6 exceed 1 capacities of 5"),
        (LIMITED_MEDIAN, "1 1 1 1 1 5 1 1e300 0 1", "a coordinate beyond 1000000"),
        (WAREHOUSE, "1 0 5 5", "the number of customers must be above zero"),
        (WAREHOUSE, "0 1 5", "the number of warehouses must be above zero"),
        (LIMITED_WAREHOUSE, "1 0 5 5", "the number of customers must be above zero"),
        (LIMITED_WAREHOUSE, "1 1 capacity 5 1 1", "name the file with its capacity, as in capa-8000.txt"),
        (LIMITED_WAREHOUSE, "1 1 5 5 0 1", "has a demand of 0; each must be a whole number, at least 1"),
        (LIMITED_WAREHOUSE, "1 1 5 5 1.5 1", "has a demand of 1.5; each must be a whole number"),
        (LIMITED_WAREHOUSE, "1 1 5.5 5 1 1", "has a capacity of 5.5; each must be a whole number"),
        (LIMITED_WAREHOUSE, "2 1 5 5 -1 5 1 1 1", "has a capacity of -1; each must be a whole number"),
        (LIMITED_WAREHOUSE, "1 1 3e6 5 2e6 1", "demands add up to 2000000, and at most 1000000"),
        (LIMITED_WAREHOUSE, "1 1 5 5 1 -1", "has a cost below 0"),
    ],
)
def test_location_files_of_data_without_sense_are_refused(name: str, text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(name).module.read(text, "capa.txt")


def test_median_shortest_paths_are_those_of_floyd_and_a_length_may_be_zero(task: GetTask) -> None:
    rng = np.random.default_rng(5)
    edges = [(i, int(rng.integers(i)), float(rng.integers(0, 4))) for i in range(1, 30)]
    edges += [(int(u), int(v), float(rng.integers(0, 4))) for u, v in rng.integers(30, size=(40, 2)) if u != v]
    floyd = np.where(np.eye(30, dtype=bool), 0, np.inf)
    for u, v, length in edges:
        floyd[u, v] = floyd[v, u] = min(floyd[u, v], length)
    for k in range(30):
        floyd = np.minimum(floyd, floyd[:, k, None] + floyd[None, k, :])
    found = task(MEDIAN).module._shortest(30, edges)
    assert found.dtype == np.int64 and found.tolist() == floyd.tolist()
    (alone,) = task(MEDIAN).module.read("1 0 1", "pmed1.txt")
    assert alone["dist"].tolist() == [[0]]


# -- warehouses with capacities


def best_supply(instance: dict[str, Any]) -> float:
    """The optimum, by mixed integer programming."""
    from scipy.optimize import Bounds, LinearConstraint, milp

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


@pytest.mark.parametrize("seed", range(3))
def test_limited_warehouse_nothing_beats_the_optimum_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(LIMITED_WAREHOUSE)
    small = one.instance(seed, n_warehouses=6, n_customers=8)
    best = best_supply(small)
    bound = one.judge.best([small])
    assert bound is not None and 0.75 * best < bound <= best
    assert best - 1e-6 <= one.play(one.program("reference"), small) <= 1.05 * best
    for name in ("template", "worse"):
        assert best <= one.play(one.program(name), small) <= one.judge.worst([small])


TWO = {
    "capacities": np.array([10, 20]), "fixed_costs": np.array([100, 1000]), "demands": np.array([6, 8]),
    "costs": np.array([[60, 6], [8, 16]]),
}  # fmt: skip


def test_limited_warehouse_parts_cost_their_share(task: GetTask) -> None:
    one = task(LIMITED_WAREHOUSE)
    seen: list[Any] = []
    given = [[2, 4], [8, 0]]
    assert one.play(lambda *args: seen.extend(args) or given, TWO) == 1100 + 60 / 3 + 6 * 2 / 3 + 8  # type: ignore[func-returns-value]
    assert seen[:2] == [2, 2] and [a.tolist() for a in seen[2:5]] == [[10, 20], [100, 1000], [6, 8]]
    assert one.play(lambda *_: np.array([[0, 6], [0, 8]]), TWO) == 1000 + 6 + 16, "the other warehouse stays closed"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([[2, 3.9], [8, 0]], ["customer 0 demands 6 and gets 5.9 in all"]),
        ([[6, 0], [4.5, 3.5]], ["warehouse 0 has capacity 10 and supplies 10.5, 0.5 too much"]),
        ([[-1, 7], [8, 0]], ["customer 0 gets -1 from warehouse 0, which is below 0"]),
        ([[0, 0], [8, 0]], ["customer 0 demands 6 and gets 0 in all"]),
        ([[1e308, 1e308], [8, 0]], ["customer 0 demands 6 and gets inf in all"]),
    ],
)
def test_limited_warehouse_each_rule_by_itself(given: Any, says: list[str], task: GetTask) -> None:
    assert task(LIMITED_WAREHOUSE).broken(TWO, np.array(given, dtype=float)) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([[6, 0]], "must have 2 entries, not 1"),
        (np.zeros((2, 3)), "must have shape (2, 2), not (2, 3)"),
        ([[6, 0], [float("nan"), 8]], "must be finite, not nan"),
        ([[6, 0], ["8", 0]], "must be a number, not the text '8'"),
        (None, "must have shape (2, 2), not be None"),
    ],
)
def test_limited_warehouse_answers_that_are_none(given: Any, says: str, task: GetTask) -> None:
    assert says in task(LIMITED_WAREHOUSE).refusal(TWO, lambda *_: given)


def test_limited_warehouse_the_tolerance_gains_nothing(task: GetTask) -> None:
    one = task(LIMITED_WAREHOUSE)
    tight = TWO | {"capacities": np.array([10, 4]), "fixed_costs": np.array([0, 0])}
    honest = one.verdict(tight, np.array([[2, 4], [8, 0.0]])).score
    assert honest == pytest.approx(best_supply(tight))
    less = one.verdict(tight, np.array([[2, 4 - 4e-6], [8, 0.0]])).score
    more = one.verdict(tight, np.array([[2 - 3e-6, 4 + 3e-6], [8, 0.0]])).score
    assert honest - 1e-9 <= min(less, more) and max(less, more) < honest + 1e-2
    dust = one.verdict(TWO, np.array([[1e-9, 6], [-1e-9, 8 + 1e-9]])).score
    assert dust == pytest.approx(1022), "a trace of supply does not open a warehouse"


def test_limited_warehouse_a_customer_without_demand_costs_nothing(task: GetTask) -> None:
    one = task(LIMITED_WAREHOUSE)
    idle = TWO | {"demands": np.array([0, 8])}
    assert one.verdict(idle, np.array([[0, 0], [8, 0.0]])).score == 108
    bound = one.judge.best([idle])
    assert bound is not None and 0 < bound <= 108
    assert one.broken(idle, np.array([[1, 0], [8, 0.0]])) == ["customer 0 demands 0 and gets 1 in all"]


@given(seed=st.integers(0, 2**32), scale=st.floats(0.1, 10))
def test_limited_warehouse_other_names_and_units_change_the_score_as_they_should(seed: int, scale: float) -> None:
    one, rng = task_of(LIMITED_WAREHOUSE), np.random.default_rng(seed)
    instance = one.instance(seed, n_warehouses=8, n_customers=12)
    n, m = instance["costs"].shape
    amounts = one.module.answer(one.program("template"), instance)
    customers, sites = rng.permutation(n), rng.permutation(m)
    renamed = {
        "fixed_costs": scale * instance["fixed_costs"][sites],
        "capacities": instance["capacities"][sites],
        "demands": instance["demands"][customers],
        "costs": scale * instance["costs"][np.ix_(customers, sites)],
    }
    score = one.verdict(instance, amounts).score
    assert one.verdict(renamed, amounts[np.ix_(customers, sites)]).score == pytest.approx(scale * score, rel=1e-9)
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


def test_ways_are_one_to_three_times_as_long_as_distances_where_capacities_do_not_limit(task: GetTask) -> None:
    for name, longest in (("uncapacitated", 3.0), ("capacitated", 1.0)):
        made = task(f"optimization/co_bench/{name}_warehouse_location_co_bench").instance(3, size="small")
        between = made["customers"][:, None, :] - made["sites"][None, :, :]
        plain = made["demands"][:, None] * np.sqrt((between**2).sum(axis=2)) / 10
        assert (made["costs"] >= np.maximum(1, plain - 0.5)).all()
        assert (made["costs"] <= np.maximum(1, longest * plain + 0.5)).all()
        assert ((made["costs"] > 2 * plain + 1).any()) == (longest > 2)
