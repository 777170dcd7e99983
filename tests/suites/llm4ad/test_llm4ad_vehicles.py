"""Vehicle routes built customer by customer: closed, open, and with time windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import routing, vehicles

GetTask = Callable[[str], Task]
Routes = list[list[int]]
CVRP = "llm4ad:optimization/cvrp_construct"
OVRP = "llm4ad:optimization/ovrp_construct"
VRPTW = "llm4ad:optimization/vrptw_construct"
every = pytest.mark.parametrize("which", [CVRP, OVRP, VRPTW])


def all_routes(customers: int) -> Iterator[Routes]:
    """Every way to put the customers into ordered routes, some of them several times."""
    for order in permutations(range(1, customers + 1)):
        for cuts in range(2 ** (customers - 1)):
            ends = [0, *(k for k in range(1, customers) if cuts >> (k - 1) & 1), customers]
            yield [list(order[a:b]) for a, b in pairwise(ends)]


def line(*demands: int, capacity: int) -> dict[str, Any]:
    """Customers at 1, 2, 3 … from the depot on a straight road."""
    points = np.array([[float(k), 0.0] for k in range(len(demands) + 1)])
    return {"points": points, "distances": routing.distances(points), "demands": np.array([0, *demands]),
            "capacity": capacity}  # fmt: skip


def timed(instance: dict[str, Any], windows: list[tuple[float, float]], service: float = 0.0) -> dict[str, Any]:
    n = len(windows)
    return instance | {"windows": np.array(windows, dtype=float), "service": np.array([0.0] + [service] * (n - 1))}


@pytest.mark.parametrize("seed", [1, 2])
@every
def test_no_routes_beat_the_best_of_all_and_the_reference_comes_close(which: str, seed: int, task: GetTask) -> None:
    one = task(which)
    small = one.instance(seed, problem_size=5, capacity=13)
    scores = [one.module.score(small, routes) for routes in all_routes(5) if not one.broken(small, routes)]
    best, worst, bound = min(scores), max(scores), one.judge.best([small])
    assert bound is not None and 0.6 * best < bound <= best
    assert worst <= one.judge.worst([small])
    assert best - 1e-12 <= one.play(one.program("reference"), small) < 1.25 * best
    assert best - 1e-12 <= one.play(one.program("template"), small)


def test_a_road_is_driven_there_and_back_or_only_there(task: GetTask) -> None:
    def ahead(at: int, depot: int, left: Any, *rest: Any) -> int:
        return int(left[0])

    assert task(CVRP).play(ahead, line(1, 1, 1, capacity=3)) == 6
    assert task(OVRP).play(ahead, line(1, 1, 1, capacity=3)) == 3
    assert task(CVRP).play(ahead, line(1, 1, 1, capacity=2)) == 4 + 6
    assert task(OVRP).play(ahead, line(1, 1, 1, capacity=2)) == 2 + 3
    assert task(CVRP).judge.best([line(1, 1, 1, capacity=2)]) == pytest.approx(9, rel=0.2)


def test_a_route_may_end_early_but_not_before_it_has_begun(task: GetTask) -> None:
    def home(at: int, depot: int, left: Any, *rest: Any) -> int:
        return depot if at else int(left[0])

    for which, length in ((CVRP, 12), (OVRP, 6)):
        one = task(which)
        assert one.play(home, line(1, 1, 1, capacity=3)) == length
        assert "node 0 is not among the 3 nodes on offer" in one.refusal(line(1, 1, 1, capacity=3), lambda *_: 0)


def test_only_what_fits_is_offered_and_nothing_else_may_be_chosen(task: GetTask) -> None:
    one = task(CVRP)
    seen = []

    def heavy(at: int, depot: int, left: Any, rest: int, demands: Any, d: Any) -> int:
        seen.append((at, left.tolist(), rest))
        return int(left[-1])

    assert one.play(heavy, line(2, 2, 3, capacity=5)) == 6 + 2
    assert seen == [(0, [1, 2, 3], 5), (3, [1, 2], 2), (0, [1], 5)]
    overload = iter([3, 2, 1])
    assert one.refusal(line(2, 3, 3, capacity=5), lambda *_: next(overload)) == (
        "step 2: node 2 is not among the 2 nodes on offer"
    )
    assert "must be an int, not the number 1.0" in one.refusal(line(1, 1, capacity=5), lambda *_: 1.0)
    assert "must be an int, not None" in one.refusal(line(1, 1, capacity=5), lambda *_: None)
    assert "must be an int, not True" in one.refusal(line(1, 1, capacity=5), lambda *_: True)
    assert "must be within" in one.refusal(line(1, 1, capacity=5), lambda *_: 10**30)


def test_late_customers_are_not_on_offer(task: GetTask) -> None:
    one = task(VRPTW)
    road = timed(line(1, 1, 1, capacity=9), [(0, 10), (1.5, 4), (2, 2.5), (3, 6.9)], service=0.25)
    seen: list[Any] = []

    def first(at: int, depot: int, left: Any, rest: int, time: float, *known: Any) -> int:
        seen.append((at, left.tolist(), time))
        return int(left[0])

    assert one.play(first, road) == 6 + 4
    assert seen == [(0, [1, 2, 3], 0.0), (1, [3], 1.75), (0, [2], 0.0)], "2 closes before 1.75 + 1"
    late = iter([1, 2])
    assert "node 2 is not among" in one.refusal(road, lambda *_: next(late))


def test_a_customer_from_whom_the_depot_is_reached_too_late_is_not_on_offer(task: GetTask) -> None:
    road = timed(line(1, 1, capacity=9), [(0, 4.5), (0, 4), (0, 4)], service=0.5)
    assert task(VRPTW).play(lambda at, depot, left, *_: int(left[0]), road) == 2 + 4
    wider = timed(line(1, 1, capacity=9), [(0, 5), (0, 4), (0, 4)], service=0.5)
    assert task(VRPTW).play(lambda at, depot, left, *_: int(left[0]), wider) == 4


def test_each_rule_that_routes_break_is_named(task: GetTask) -> None:
    one = task(VRPTW)
    road = timed(line(2, 2, 3, capacity=5), [(0, 6.1), (0, 1.5), (0, 5), (0, 5)], service=0.2)
    assert one.broken(road, [[1, 2], [3]]) == ["route 1 is back at 6.2, after the depot closes at 6.1"]
    road["windows"][0, 1] = 6.2
    assert one.broken(road, [[1, 2], [3]]) == []
    assert one.broken(road, [[1], [3]]) == ["customer 2 is visited 0 times, not once"]
    assert one.broken(road, [[1, 2], [3], [2]]) == ["customer 2 is visited 2 times, not once"]
    assert one.broken(road, [[2, 1], [3]]) == ["route 0 reaches customer 1 at 3.2, after its window closes at 1.5"]
    heavy = road | {"capacity": 4}
    assert one.broken(heavy, [[1], [2, 3]])[0] == "route 1 carries 5, 1 more than the capacity of 4"


@every
def test_every_customer_of_a_drawn_instance_can_be_served_alone(which: str, task: GetTask) -> None:
    one = task(which)
    for seed in range(5):
        drawn = one.instance(seed, problem_size=30, capacity=seed + 1)
        alone = [[node] for node in range(1, 31)]
        assert one.broken(drawn, alone) == []
        assert one.module.score(drawn, alone) <= one.judge.worst([drawn])


@given(seed=st.integers(0, 2**32), scale=st.floats(0.1, 10), times=st.integers(1, 5), mirror=st.booleans())
def test_scaled_and_mirrored_instances_score_as_they_should(seed: int, scale: float, times: int, mirror: bool) -> None:
    for which in (CVRP, OVRP):
        one = task_of(which)
        old = one.instance(seed, problem_size=9, capacity=15)
        points = old["points"] * ([-scale, scale] if mirror else scale)
        new = {"points": points, "distances": routing.distances(points), "demands": old["demands"] * times,
               "capacity": 15 * times}  # fmt: skip
        routes = one.module.answer(one.program("template"), old)
        assert one.broken(new, routes) == []
        assert one.module.score(new, routes) == pytest.approx(scale * one.module.score(old, routes), rel=1e-9)
        assert one.judge.worst([new]) == pytest.approx(scale * one.judge.worst([old]), rel=1e-9)
        if which == CVRP:
            backwards = [route[::-1] for route in routes[::-1]]
            assert one.module.score(old, backwards) == pytest.approx(one.module.score(old, routes), rel=1e-12)


@given(seed=st.integers(0, 2**32), order=st.permutations(list(range(1, 9))))
def test_other_numbers_for_the_customers_change_nothing(seed: int, order: list[int]) -> None:
    one = task_of(VRPTW)
    old = one.instance(seed, problem_size=8, capacity=15)
    at = np.array([0, *order])
    new = {name: old[name][at] for name in ("points", "demands", "windows", "service")} | {"capacity": 15}
    new["distances"] = routing.distances(new["points"])
    routes = one.module.answer(one.program("reference"), old)
    renamed = [[order.index(node) + 1 for node in route] for route in routes]
    assert one.broken(new, renamed) == []
    assert one.module.score(new, renamed) == pytest.approx(one.module.score(old, routes), rel=1e-9)
    assert vehicles.fewest_vehicles(old) <= len(routes)


def test_trees_and_loads_bound_instances_whose_best_routes_are_known() -> None:
    star = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    one = {"points": star, "distances": routing.distances(star), "demands": np.array([0, 1, 1, 1, 1]), "capacity": 1}
    assert vehicles.closed_bound(one["distances"], 4) == pytest.approx(8, rel=1e-6)
    assert vehicles.load_bound(one) == pytest.approx(8, rel=1e-6)
    assert vehicles.open_bound(one["distances"], 4) == pytest.approx(4, rel=1e-6)
    assert vehicles.load_bound(one | {"capacity": vehicles.MOST_WORK}) == 0


@pytest.mark.parametrize("fleet", [2, 3, 4])
def test_vehicles_that_must_all_go_far_are_in_the_bounds(fleet: int) -> None:
    far = np.array([[0.0, 0], [10, 0], [10, 0.1], [10, 0.2], [10, 0.3]])
    between = routing.distances(far)
    best = fleet * 10 + (4 - fleet) * 0.1  # up to what the places differ in
    assert 0.98 * best < vehicles.open_bound(between, fleet) <= best + 0.02
    assert 0.98 * (best + 10 * fleet) < vehicles.closed_bound(between, fleet) <= best + 10 * fleet + 0.04
