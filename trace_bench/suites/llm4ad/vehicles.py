"""What vehicle routing tasks share: routes built step by step, the rules that routes obey, bounds, pictures.

An instance is a dict with ``points`` (shape (n, 2), the depot is row 0), ``distances`` (n, n), ``demands`` (n ints, 0
for the depot), ``capacity`` (int) and, where there are time windows, ``windows`` (n, 2; row 0 is when the depot is
open) and ``service`` (n: time that a visit takes). A solution is a list of routes, each the customers of one vehicle
in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import routing
from trace_bench.suites.llm4ad.routing import Floats

Instance = Mapping[str, Any]
Routes = list[list[int]]
Ints = NDArray[np.int64]
DEPOT = 0
MOST_WORK = 4_000_000
"""Capacity times squared number of nodes for which `load_bound` is worked out: about a second."""


def fleet(rng: np.random.Generator, customers: int, capacity: int) -> dict[str, Any]:
    """A depot and customers drawn uniformly from the unit square, with demands of 1 to 9, at most the capacity."""
    points = rng.random((customers + 1, 2))
    demands = rng.integers(1, min(9, capacity), size=customers + 1, endpoint=True)
    demands[DEPOT] = 0
    return {"points": points, "distances": routing.distances(points), "demands": demands, "capacity": capacity}


def built(ask: Callable[[int, NDArray[np.int64], int, float], Any], instance: Instance) -> Routes:
    """The routes that a rule builds.

    Args:
        ask: called with the current node, the customers on offer, the rest of the capacity and the time; answers with
            a customer on offer or, away from the depot, with the depot.
        instance: every customer can be served alone.

    Raises:
        CandidateError: it answered anything else.
    """
    left = list(range(1, len(instance["demands"])))
    routes: Routes = []
    while left:
        route: list[int] = []
        rest, time = int(instance["capacity"]), 0.0
        while offered := _fitting(instance, route[-1] if route else DEPOT, left, rest, time):
            at = route[-1] if route else DEPOT
            step = len(instance["demands"]) - len(left)
            choices = [DEPOT, *offered] if route else offered
            node = routing.chosen(ask(at, np.array(offered), rest, time), choices, step)
            if node == DEPOT:
                break
            time = _leaves(instance, at, node, time)
            rest -= int(instance["demands"][node])
            route.append(node)
            left.remove(node)
        routes.append(route)
    return routes


def _fitting(instance: Instance, at: int, left: Sequence[int], rest: int, time: float) -> list[int]:
    fits = [node for node in left if instance["demands"][node] <= rest]
    if "windows" not in instance:
        return fits
    return [node for node in fits if _in_time(instance, at, node, time)]


def _starts(instance: Instance, at: int, node: int, time: float) -> float:
    """When service of `node` starts for a vehicle that leaves `at` at `time`."""
    return max(time + float(instance["distances"][at, node]), float(instance["windows"][node, 0]))


def _leaves(instance: Instance, at: int, node: int, time: float) -> float:
    return _starts(instance, at, node, time) + float(instance["service"][node]) if "windows" in instance else 0.0


def _in_time(instance: Instance, at: int, node: int, time: float) -> bool:
    if _starts(instance, at, node, time) > instance["windows"][node, 1]:
        return False
    home = _leaves(instance, at, node, time) + float(instance["distances"][node, DEPOT])
    return bool(home <= instance["windows"][DEPOT, 1])


def violations(instance: Instance, routes: Routes) -> Iterator[str]:
    """What is wrong with routes that no rule built."""
    demands, capacity = instance["demands"], instance["capacity"]
    visits = np.bincount([node for route in routes for node in route], minlength=len(demands))
    for node in range(1, len(demands)):
        if visits[node] != 1:
            yield f"customer {node} is visited {visits[node]} times, not once"
    for number, route in enumerate(routes):
        load = int(demands[route].sum())
        if load > capacity:
            yield f"route {number} carries {load}, {load - capacity} more than the capacity of {capacity}"
        if "windows" in instance:
            yield from _late(instance, number, route)


def _late(instance: Instance, number: int, route: list[int]) -> Iterator[str]:
    at, time = DEPOT, 0.0
    for node in route:
        arrival = time + float(instance["distances"][at, node])
        close = float(instance["windows"][node, 1])
        if arrival > close:
            yield f"route {number} reaches customer {node} at {arrival:.6g}, after its window closes at {close:.6g}"
        time = _leaves(instance, at, node, time)
        at = node
    home, close = time + float(instance["distances"][at, DEPOT]), float(instance["windows"][DEPOT, 1])
    if home > close:
        yield f"route {number} is back at {home:.6g}, after the depot closes at {close:.6g}"


def length(route: Sequence[int], between: Floats, *, closed: bool = True) -> float:
    """Length of one route from the depot, and back to it if `closed`."""
    order = np.array([DEPOT, *route, DEPOT] if closed else [DEPOT, *route])
    return float(between[order[:-1], order[1:]].sum())


def total_length(routes: Routes, between: Floats, *, closed: bool = True) -> float:
    """Length of all routes."""
    return math.fsum(length(route, between, closed=closed) for route in routes)


def out_and_back(between: Floats) -> float:
    """Each customer alone, there and back. No routes that visit each once are longer: a leg from one customer to the
    next is no longer than the way by the depot (triangle inequality)."""
    return 2 * float(between[DEPOT].sum()) * (1 + 1e-12)


def fewest_vehicles(instance: Instance) -> int:
    """Routes that the total demand needs at least."""
    return -(-int(instance["demands"].sum()) // int(instance["capacity"]))


def closed_bound(between: Floats, vehicles: int, steps: int = 40) -> float:
    """A lower bound for at least `vehicles` closed routes that visit each customer once.

    Without the last leg of each, k routes are a spanning tree with k legs at the depot; the last legs start at k
    different customers; each customer has two legs. The bound drops the two conditions on degrees for prices
    (Lagrange), which subgradient steps improve, as in Held and Karp (1970) and Fisher (1994).
    """
    n = len(between)
    if n < 2:
        return 0.0
    prices, depot, best = np.zeros(n), 0.0, 0.0
    step, depot_step = 0.08 * float(between.mean()), 0.1 * float(between[DEPOT].mean())
    for _ in range(steps):
        weights = between + prices[:, None] + prices[None, :]
        weights[DEPOT, 1:] += depot
        weights[1:, DEPOT] += depot
        tree, edges = routing.spanning_tree(weights)
        degrees = routing.degrees_in(edges, n)
        last = between[DEPOT, 1:] + prices[1:] - depot
        order = np.argsort(last, kind="stable")
        count = max(vehicles, int((last < 0).sum()))
        best = max(best, tree + float(last[order[:count]].sum()) - 2 * float(prices.sum()))
        toward = degrees - 2.0
        toward[order[:count] + 1] += 1
        depot += depot_step * (int(degrees[DEPOT]) - count)
        toward[DEPOT] = 0
        prices += step * toward
        step, depot_step = 0.93 * step, 0.93 * depot_step
    return best * (1 - 1e-9)


def open_bound(between: Floats, vehicles: int, steps: int = 40) -> float:
    """A lower bound for at least `vehicles` routes that end at their last customers.

    They are a spanning tree with at least `vehicles` legs at the depot and at most two at each customer; the bound
    drops the conditions on degrees for prices, which are not negative.
    """
    n = len(between)
    if n < 2:
        return 0.0
    prices, depot, best = np.zeros(n), 0.0, 0.0
    step, depot_step = 0.08 * float(between.mean()), 0.1 * float(between[DEPOT].mean())
    for _ in range(steps):
        weights = between + prices[:, None] + prices[None, :]
        weights[DEPOT, 1:] -= depot
        weights[1:, DEPOT] -= depot
        tree, edges = routing.spanning_tree(weights)
        degrees = routing.degrees_in(edges, n)
        best = max(best, tree - 2 * float(prices.sum()) + depot * vehicles)
        depot = max(0.0, depot + depot_step * (vehicles - int(degrees[DEPOT])))
        toward = degrees - 2.0
        toward[DEPOT] = 0
        prices = np.maximum(0.0, prices + step * toward)
        step, depot_step = 0.93 * step, 0.93 * depot_step
    return best * (1 - 1e-9)


def load_bound(instance: Instance, *, visits: Ints | None = None, steps: int = 24) -> float:
    """A lower bound by the loads of routes (q-routes: Christofides, Mingozzi, Toth, 1981).

    A route may here visit a customer more than once, but carries for each visit; the loads of all routes sum up to the
    total demand. That each customer is visited once has a price, improved by subgradient steps (Polyak) from prices at
    which the bound is 2 / capacity times the sum of demand times distance (Haimovich, Rinnooy Kan, 1985). Above
    `MOST_WORK` it is 0, which is no bound at all.

    Args:
        instance: demands are whole numbers above 0, but that of the depot.
        visits: how often each customer is visited, on routes of its own or of others; once if left out. It is served
            its demand each time.
        steps: more of them raise the bound.
    """
    between, demands, capacity = instance["distances"], instance["demands"], int(instance["capacity"])
    n = len(demands)
    if capacity * n * n > MOST_WORK or n < 2:
        return 0.0
    load, to, away = demands[1:].astype(np.int64), between[1:, 1:].copy(), between[DEPOT, 1:]
    np.fill_diagonal(to, np.inf)
    due = np.ones(n - 1, dtype=np.int64) if visits is None else visits
    prices, best = 2 * away * load / capacity, 0.0
    step, stale = 1.0, 0
    for _ in range(steps):
        costs = _loaded(load, to, away, prices, capacity)
        ends = costs[1:] + away  # by load, from 1 on, and last customer
        value, used = _cheapest_loads(ends.min(axis=1), int((due * load).sum()))
        found = value + float((due * prices).sum())
        stale = 0 if found > best else stale + 1
        best = max(best, found)
        if stale == 4:
            step, stale = step / 2, 0
        made = np.zeros(n - 1)
        for carried, times in used.items():
            node, rest = int(ends[carried - 1].argmin()), carried
            while rest > 0:
                made[node] += times
                rest -= int(load[node])
                node = int((costs[rest] + to[node]).argmin())
        off = due - made
        if not off.any():
            break
        prices += step * (1.1 * best - found) / float(off @ off) * off
    return best * (1 - 1e-9)


def _loaded(load: Ints, to: Floats, away: Floats, prices: Floats, capacity: int) -> Floats:
    """Least cost of a way from the depot with each load 0 .. capacity (rows) to each customer (columns)."""
    costs = np.full((capacity + 1, len(load)), np.inf)  # of load 0 there is none
    priced = to - prices[:, None]
    rows = [np.maximum(carried - load, 0) for carried in range(capacity + 1)]
    for carried in range(1, capacity + 1):
        costs[carried] = (costs[rows[carried]] + priced).min(axis=1)
        first = load == carried
        costs[carried, first] = (away - prices)[first]
    return costs


def _cheapest_loads(costs: Floats, total: int) -> tuple[float, dict[int, int]]:
    """Routes of loads 1, 2 … that cost `costs` and carry `total`: the least cost, and how many of each load."""
    turned = costs[::-1]
    size = len(costs)
    least = np.full(total + size + 1, np.inf)
    least[size] = 0.0  # of load 0; loads below it cannot be
    taken = np.zeros(total + 1, dtype=np.int64)
    for carried in range(1, total + 1):
        ways = least[carried : carried + size] + turned
        which = int(ways.argmin())
        taken[carried] = size - which
        least[carried + size] = ways[which]
    used: dict[int, int] = {}
    left = total
    while left > 0:
        used[int(taken[left])] = used.get(int(taken[left]), 0) + 1
        left -= int(taken[left])
    return float(least[total + size]), used


def remark(instance: Instance, routes: Routes, *, closed: bool = True) -> str:
    """How many routes there are, how full, and which is dear."""
    between, demands, capacity = instance["distances"], instance["demands"], instance["capacity"]
    used = [route for route in routes if route]
    lengths = [length(route, between, closed=closed) for route in used]
    dear = max(range(len(used)), key=lambda r: lengths[r] / len(used[r]))
    full = int(demands.sum()) / (capacity * len(used))
    ends = [between[DEPOT, route[0]] + (between[route[-1], DEPOT] if closed else 0.0) for route in used]
    return (
        f"{len(used)} routes, {100 * full:.0f} % full on average (the demands need {fewest_vehicles(instance)}); "
        f"{100 * sum(ends) / sum(lengths):.0f} % of the length is legs at the depot. The dearest per customer is route "
        f"{dear}: {len(used[dear])} customers from {used[dear][0]} to {used[dear][-1]} for {lengths[dear]:.4f}, load "
        f"{int(demands[used[dear]].sum())} of {capacity}."
    )


def draw(points: Floats, routes: Routes, *, closed: bool = True) -> Drawing:
    """The routes in colours; the depot is a square."""
    low, high = points.min(axis=0), points.max(axis=0)
    drawing = Drawing(low[0], high[0], low[1], high[1])
    for number, route in enumerate(routes):
        order = [DEPOT, *route, DEPOT] if closed else [DEPOT, *route]
        drawing.path(points[order], line=colour(number), thick=1.6)
    drawing.dots(points[1:])
    side = 0.02 * float(max(high - low))
    drawing.rectangle(points[0, 0] - side / 2, points[0, 1] - side / 2, side, side, fill="#000000")
    return drawing
