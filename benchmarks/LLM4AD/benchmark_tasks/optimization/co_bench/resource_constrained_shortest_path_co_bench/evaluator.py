"""Shortest path with limits on resources: the cost of a path from the first vertex to the last; less is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers

ROUNDING = 1e-9
"""Of a sum of consumptions, relative: limits and consumptions of generated instances are whole numbers, where it gains
nothing."""
OUT_OF_REACH = 50
"""Drawings until one has a cheapest path that breaks a limit."""
REACH, NOISE, ROOM = 12, 5.0, 0.6
"""How much further an arc leads at most; how far costs are from what consumption tells (standard deviation); where
limits lie between what the most frugal path and the cheapest one consume."""
Arcs = dict[tuple[int, int], tuple[float, list[float]]]


def instance(rng: np.random.Generator, *, problem_size: int, n_resources: int) -> dict[str, Any]:
    """Arcs lead to higher numbers, not far; what is cheap consumes much. The cheapest path breaks a limit, another path
    breaks none. Paths are long and resources many, so that no solver proves an optimum within the limit of a call."""
    made: dict[str, Any] = {}
    for _ in range(OUT_OF_REACH):
        made = _network(rng, int(rng.integers((problem_size + 1) // 2, problem_size, endpoint=True)), n_resources)
        frugal = _total(made, _best(made, thrift=1e6))
        cheap = _total(made, _best(made, thrift=0.0))
        made["upper"] = frugal + np.floor(ROOM * np.maximum(0.0, cheap - frugal))
        if (cheap > made["upper"]).any():
            break
    return made


def _network(rng: np.random.Generator, n: int, resources: int) -> dict[str, Any]:
    span = max(3, min(REACH, n // 5))
    arcs: Arcs = {}
    for start in range(1, n):
        last = min(n, start + span)
        ends = {start + 1, *(start + rng.integers(1, last - start, size=7, endpoint=True)).tolist()}
        for end in sorted(ends):
            used = rng.integers(1, 100, size=resources, endpoint=True)
            cost = min(200, max(1, round(101 - float(used.mean()) + float(rng.normal(0, NOISE)))))
            arcs[start, end] = float(cost), used.astype(float).tolist()
    return {
        "n": n,
        "lower": np.zeros(resources),
        "vertices": rng.integers(0, 10, size=(n, resources), endpoint=True).astype(float),
        "arcs": _listed(arcs),
        "upper": np.full(resources, np.inf),
    }


def _listed(arcs: Arcs) -> list[tuple[int, int, float, list[float]]]:
    return [(*ends, *what) for ends, what in arcs.items()]


def _arcs(instance: dict[str, Any]) -> Arcs:
    """Cost and consumption of each arc, by its start and end."""
    return {(start, end): (cost, used) for start, end, cost, used in instance["arcs"]}


def _best(instance: dict[str, Any], thrift: float) -> list[int]:
    """The path of least cost plus `thrift` times all resources, where arcs lead to higher numbers."""
    n = instance["n"]
    reach, came = [0.0] + [math.inf] * (n - 1), [0] * (n + 1)
    for start, end, cost, used in sorted(instance["arcs"]):
        length = reach[start - 1] + cost + thrift * (sum(used) + float(instance["vertices"][end - 1].sum()))
        if length < reach[end - 1]:
            reach[end - 1], came[end] = length, start
    path = [n]
    while path[-1] != 1:
        path.append(came[path[-1]])
    return path[::-1]


def _total(instance: dict[str, Any], path: list[int]) -> np.ndarray:
    """What a path consumes, of each resource."""
    arcs = _arcs(instance)
    used = [instance["vertices"][v - 1] for v in path] + [np.array(arcs[step][1]) for step in pairwise(path)]
    return np.array([math.fsum(column) for column in np.array(used).T.tolist()])


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's rcsp files, one instance or several: n m K; K lower and K upper limits; K consumptions of each
    vertex; of each arc its start and end (from 1), cost and K consumptions.

    Of arcs that join the same two vertices those that no path needs are left out; of the others the cheapest is kept,
    and each further one leads by a vertex of its own, which consumes nothing. Such vertices have the numbers from n on,
    and the last vertex the highest, as ever."""
    numbers = Numbers(text)
    found = [_read(numbers)]
    while not numbers.done:
        found.append(_read(numbers))
    return found


def _read(numbers: Numbers) -> dict[str, Any]:
    n, m = numbers.count("the number of vertices", most=100_000), numbers.count("the number of arcs")
    k = numbers.count("the number of resources", most=1000)
    if n < 2 or k < 1:
        raise DataError(f"has {n} vertices and {k} resources; it takes two and one")
    lower, upper = (np.array(numbers.reals(k, f"{which} limit")) for which in ("a lower", "an upper"))
    vertices = np.array(numbers.reals(n * k, "what a vertex consumes")).reshape(n, k)
    arcs: dict[tuple[int, int], list[tuple[float, list[float]]]] = {}
    for _ in range(m):
        start, end = numbers.integer("the start of an arc"), numbers.integer("the end of an arc")
        if not (1 <= start <= n and 1 <= end <= n):
            raise DataError(f"has an arc {start} {end}; its ends must lie within 1 .. {n}")
        arc = numbers.real("the cost of an arc"), numbers.reals(k, "what an arc consumes")
        if arc[0] < 0:
            raise DataError(f"has an arc {start} {end} of cost {arc[0]:g}; costs are not negative")
        arcs.setdefault((start, end), []).append(arc)
    if not _reached(n, arcs):
        raise DataError(f"has an instance in which no path leads from vertex 1 to vertex {n}")
    return {"lower": lower, "upper": upper} | _apart(n, vertices, arcs, lower)


def _reached(n: int, arcs: Iterable[tuple[int, int]]) -> bool:
    follow: dict[int, list[int]] = {}
    for start, end in arcs:
        follow.setdefault(start, []).append(end)
    reached, queue = {1}, [1]
    while queue:
        for end in follow.get(queue.pop(), ()):
            if end not in reached:
                reached.add(end)
                queue.append(end)
    return n in reached


def _apart(
    n: int, vertices: np.ndarray, arcs: dict[tuple[int, int], list[tuple[float, list[float]]]], lower: np.ndarray
) -> dict[str, Any]:
    """The network with vertices put into parallel arcs."""
    kept = {ends: _needed(ways, lower) for ends, ways in arcs.items()}
    last = n + sum(len(ways) - 1 for ways in kept.values())
    found: Arcs = {}
    middle = n
    for ends, ways in kept.items():
        start, end = (last if vertex == n else vertex for vertex in ends)
        found[start, end] = ways[0]
        for cost, used in ways[1:]:
            found[start, middle] = cost, used
            found[middle, end] = 0.0, [0.0] * len(used)
            middle += 1
    consumed = np.vstack([vertices[:-1], np.zeros((last - n, vertices.shape[1])), vertices[-1:]])
    return {"n": last, "vertices": consumed, "arcs": _listed(found)}


def _needed(ways: list[tuple[float, list[float]]], lower: np.ndarray) -> list[tuple[float, list[float]]]:
    """Those than which none is cheaper or as cheap and consumes no more (as much, where there is a least), by cost."""
    kept: list[tuple[float, list[float]]] = []
    for cost, used in sorted(ways):
        more = [np.array(used) - other for _, other in kept]
        if not any(((d >= 0) & ((d == 0) | (lower <= 0))).all() for d in more):
            kept.append((cost, used))
    return kept


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    n = instance["n"]
    graph: dict[int, list[Any]] = {vertex: [] for vertex in range(1, n + 1)}
    for start, end, cost, used in instance["arcs"]:
        graph[start].append((end, cost, used))
    lower, upper, vertices = (instance[name].tolist() for name in ("lower", "upper", "vertices"))
    found = program(n, len(instance["arcs"]), len(upper), lower, upper, vertices, graph)
    return checks.integers(checks.sequence(found, "the path", longest=n), "the path", low=1, high=n)


def violations(instance: dict[str, Any], path: list[int]) -> Iterator[str]:
    """Wrong ends, vertices visited again, arcs that are none, and limits of resources."""
    n, arcs = instance["n"], _arcs(instance)
    if not path or path[0] != 1 or path[-1] != n:
        yield f"the path must lead from vertex 1 to vertex {n}, not " + (
            f"from {path[0]} to {path[-1]}" if path else "be empty"
        )
    seen: set[int] = set()
    for place, vertex in enumerate(path):
        if vertex in seen:
            yield f"vertex {vertex} is visited again at place {place} of the path"
        seen.add(vertex)
    missing = [step for step in pairwise(path) if step not in arcs]
    for start, end in missing:
        yield f"there is no arc from vertex {start} to vertex {end}"
    if missing or not path:
        return
    for k, total in enumerate(_total(instance, path).tolist()):
        lower, upper = float(instance["lower"][k]), float(instance["upper"][k])
        slack = ROUNDING * max(1.0, abs(total))
        if total > upper + slack:
            yield f"the path consumes {total:.10g} of resource {k}, {total - upper:.6g} over its limit {upper:.10g}"
        elif total < lower - slack:
            yield f"the path consumes {total:.10g} of resource {k}, {lower - total:.6g} short of its least {lower:.10g}"


def score(instance: dict[str, Any], path: list[int]) -> float:
    """Cost of the arcs."""
    arcs = _arcs(instance)
    return math.fsum(arcs[step][0] for step in pairwise(path))


def worst(instance: dict[str, Any]) -> float:
    """The dearest path, whatever it consumes; where arcs lead back, each vertex left by its dearest arc."""
    n, arcs = instance["n"], instance["arcs"]
    if any(start >= end for start, end, *_ in arcs):
        dearest = [0.0] * (n + 1)
        for start, _, cost, _ in arcs:
            dearest[start] = max(dearest[start], cost)
        return math.fsum(dearest[:n])
    far = [0.0] + [-math.inf] * (n - 1)
    for start, end, cost, _ in sorted(arcs):
        far[end - 1] = max(far[end - 1], far[start - 1] + cost)
    return far[-1] * (1 + 1e-12)


def bound(instance: dict[str, Any]) -> float:
    """A unit of flow from the first vertex to the last within the limits, by a linear program; 0 if that fails.

    Worked out from the prices that the program finds: any prices give a bound, whatever its tolerances."""
    n, arcs = instance["n"], instance["arcs"]
    starts, ends = np.array([arc[:2] for arc in arcs]).T - 1
    costs = np.array([arc[2] for arc in arcs])
    used = np.array([arc[3] for arc in arcs]) + instance["vertices"][ends]
    columns = np.tile(np.arange(len(costs)), 2)
    signs = np.repeat([1.0, -1.0], len(costs))
    flow = coo_array((signs, (np.concatenate([starts, ends]), columns)), shape=(n, len(costs)))
    net = np.zeros(n)
    net[0], net[-1] = 1.0, -1.0
    first = instance["vertices"][0]
    most = np.concatenate([instance["upper"] - first, first - instance["lower"]])
    limits = vstack([coo_array(used.T), coo_array(-used.T)])
    solved = linprog(costs, A_ub=limits, b_ub=most, A_eq=flow, b_eq=net, bounds=(0, 1), method="highs")
    if solved.status != 0:
        return 0.0
    dear, potential = np.minimum(0.0, solved.ineqlin.marginals), solved.eqlin.marginals
    paid = [dear * most, potential * net, np.minimum(0.0, costs - limits.T @ dear - flow.T @ potential)]
    terms = np.concatenate(paid)
    return max(0.0, math.fsum(terms.tolist()) - 1e-12 * float(np.abs(terms).sum()))


def remark(instance: dict[str, Any], path: list[int]) -> str:
    total = _total(instance, path)
    limits = instance["upper"].tolist()
    shares = [f"{100 * t / u:.0f} %" if u else "all" for t, u in zip(total.tolist(), limits, strict=True)]
    steps, arcs = list(pairwise(path)), _arcs(instance)
    dear = max(steps, key=lambda step: arcs[step][0])
    return (
        f"{len(steps)} arcs; of the limits it consumes {', '.join(shares)}. The dearest arc, from vertex {dear[0]} to "
        f"{dear[1]}, costs {arcs[dear][0]:.6g}."
    )
