"""Tasks of the suite as mixed-integer linear programs, and how far one call of a solver gets within a task's limit.

``PYTHONPATH=. python -m tests.suites.llm4ad.milp_models [TASK …]`` prints, for the default training instances at size
standard, whether ``scipy.optimize.milp`` proves an optimum within the task's time limit, and after how long. Each model
is the textbook's, written from the instance alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.spec import resolve_eval_kwargs
from trace_bench.suites.splits import settings_of, split_seed
from trace_bench.worker.problem import BuildContext

SEED = 123


@dataclass(frozen=True)
class Model:
    """Minimize ``costs @ x`` with ``low <= rows @ x <= high`` and ``0 <= x <= most``.

    Attributes:
        whole: for each variable whether it is a whole number.
        read: the task's solution of a vector x.
    """

    costs: np.ndarray
    rows: Any
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    read: Callable[[np.ndarray], Any]
    most: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What one call of the solver came to; `solution` is None where it found none."""

    proven: bool
    seconds: float
    solution: Any


def solve(model: Model, seconds: float) -> Outcome:
    """Solve `model` by one call of ``milp`` within so many seconds of wall time."""
    start = time.perf_counter()
    found = milp(
        model.costs,
        constraints=LinearConstraint(csr_array(model.rows), model.low, model.high),
        integrality=model.whole.astype(np.int64),
        bounds=Bounds(0, model.most),
        options={"time_limit": seconds},
    )
    spent = time.perf_counter() - start
    return Outcome(found.status == 0, spent, None if found.x is None else model.read(found.x))


def training(task: Task, size: str = "standard") -> Iterator[dict[str, Any]]:
    """The default training instances."""
    kwargs = resolve_eval_kwargs(task.spec, {"size": size}, lambda key: key)
    context = BuildContext(task_dir=task.folder, spec=task.spec.raw, eval_kwargs=kwargs, seed=SEED, programs=None)  # type: ignore[arg-type]
    settings = {key: value for key, value in settings_of(context, "train").items() if key != "n_instance"}
    seed = split_seed(context, "train")
    assert seed is not None
    for number in range(kwargs["n_instance"]):
        yield task.module.instance(np.random.default_rng([seed, number]), **settings)


# ------------------------------------------------------------------------------------------------- assignment, location


def _assigned(sites: int, clients: int) -> Any:
    """Rows that add up, for each client, the variables ``x[site, client]``."""
    return kron(np.ones((1, sites)), eye_array(clients))


def _site_of(x: np.ndarray, sites: int, clients: int) -> list[int]:
    return [int(site) for site in x[: sites * clients].reshape(sites, clients).argmax(axis=0)]


def generalised_assignment(instance: dict[str, Any]) -> Model:
    costs, uses, capacities = instance["costs"], instance["uses"], instance["capacities"]
    m, n = costs.shape
    loads = csr_array((uses.ravel().astype(float), (np.repeat(np.arange(m), n), np.arange(m * n))), shape=(m, m * n))
    return Model(
        costs.ravel().astype(float),
        vstack([_assigned(m, n), loads]),
        np.concatenate([np.ones(n), np.full(m, -np.inf)]),
        np.concatenate([np.ones(n), capacities]),
        np.ones(m * n),
        lambda x: _site_of(x, m, n),
    )


def _located(
    costs: np.ndarray, opening: np.ndarray, *, number: int | None = None, loads: Any = None, room: Any = None
) -> Model:
    """Clients go to open sites. ``costs`` (sites, clients); with `loads`, single sources within `room` if open."""
    m, n = costs.shape
    opened = -kron(eye_array(m), np.ones((n, 1)))
    rows = [hstack([_assigned(m, n), csr_array((n, m))]), hstack([eye_array(m * n), opened])]
    low, high = [np.ones(n), np.full(m * n, -np.inf)], [np.ones(n), np.zeros(m * n)]
    if number is not None:
        rows.append(hstack([csr_array((1, m * n)), csr_array(np.ones((1, m)))]))
        low, high = [*low, np.zeros(1)], [*high, np.full(1, number)]
    if loads is not None:
        rows.append(hstack([kron(eye_array(m), loads[None, :]), -eye_array(m) * room]))
        low, high = [*low, np.full(m, -np.inf)], [*high, np.zeros(m)]
    whole = np.concatenate([np.full(m * n, loads is not None), np.ones(m)])
    return Model(
        np.concatenate([costs.ravel(), opening]).astype(float),
        vstack(rows), np.concatenate(low), np.concatenate(high), whole,
        lambda x: _site_of(x, m, n),
    )  # fmt: skip


def uncapacitated_warehouses(instance: dict[str, Any]) -> Model:
    return _located(instance["costs"].T, instance["fixed_costs"])


def p_median(instance: dict[str, Any]) -> Model:
    dist, p = instance["dist"], instance["p"]
    model = _located(dist, np.zeros(len(dist)), number=p)

    def medians(x: np.ndarray) -> list[int]:
        chosen = sorted(set(model.read(x)))
        return chosen + [v for v in range(len(dist)) if v not in chosen][: p - len(chosen)]

    return Model(model.costs, model.rows, model.low, model.high, model.whole, medians)


def capacitated_p_median(instance: dict[str, Any]) -> Model:
    dist = instance["dist"]
    loads, room = instance["demands"].astype(float), float(instance["capacity"])
    return _located(dist, np.zeros(len(dist)), number=instance["p"], loads=loads, room=room)


def capacitated_warehouses(instance: dict[str, Any]) -> Model:
    """Shares of demands; a warehouse that is closed supplies none."""
    costs, demands = instance["costs"].T, instance["demands"].astype(float)
    m, n = costs.shape
    opened = -kron(eye_array(m), np.ones((n, 1)))
    room = csr_array((instance["capacities"].astype(float), (np.arange(m), np.arange(m))), shape=(m, m))
    rows = [
        hstack([_assigned(m, n), csr_array((n, m))]),
        hstack([eye_array(m * n), opened]),
        hstack([kron(eye_array(m), demands[None, :]), -room]),
    ]
    return Model(
        np.concatenate([costs.ravel(), instance["fixed_costs"]]).astype(float),
        vstack(rows),
        np.concatenate([np.ones(n), np.full(m * n + m, -np.inf)]),
        np.concatenate([np.ones(n), np.zeros(m * n + m)]),
        np.concatenate([np.zeros(m * n), np.ones(m)]),
        lambda x: _whole_supply(x[: m * n].reshape(m, n).T) * demands[:, None],
    )


def _whole_supply(shares: np.ndarray) -> np.ndarray:
    """Shares of each client that add up to one, without those that rounding left."""
    kept = np.where(shares > 1e-7, shares, 0.0)
    whole: np.ndarray = kept / kept.sum(axis=1, keepdims=True)
    return whole


# -------------------------------------------------------------------------------------------------- sets and knapsacks


def _incidence(columns: list[list[int]], m: int) -> Any:
    cells = [(row, column) for column, rows in enumerate(columns) for row in rows]
    return csr_array((np.ones(len(cells)), tuple(np.array(cells).T)), shape=(m, len(columns)))


def _chosen(x: np.ndarray) -> list[int]:
    return [int(number) for number in np.flatnonzero(x > 0.5)]


def set_covering(instance: dict[str, Any]) -> Model:
    rows, n = _incidence(instance["columns"], instance["m"]), len(instance["columns"])
    m = instance["m"]
    return Model(instance["costs"].astype(float), rows, np.ones(m), np.full(m, np.inf), np.ones(n), _chosen)


def set_partitioning(instance: dict[str, Any]) -> Model:
    rows, n = _incidence(instance["columns"], instance["m"]), len(instance["columns"])
    m = instance["m"]
    return Model(instance["costs"].astype(float), rows, np.ones(m), np.ones(m), np.ones(n), _chosen)


def _choice(x: np.ndarray) -> list[int]:
    return [int(value) for value in np.rint(x)]


def multi_knapsack(instance: dict[str, Any]) -> Model:
    m, n = instance["weights"].shape
    low = np.full(m, -np.inf)
    return Model(-instance["profits"], instance["weights"], low, instance["capacities"], np.ones(n), _choice)


def multi_demand_knapsack(instance: dict[str, Any]) -> Model:
    (m, n), q = instance["weights"].shape, len(instance["supplies"])
    return Model(
        -instance["values"],
        np.vstack([instance["weights"], instance["supplies"]]),
        np.concatenate([np.full(m, -np.inf), instance["demands"]]),
        np.concatenate([instance["capacities"], np.full(q, np.inf)]),
        np.ones(n),
        _choice,
    )


def equitable_partition(instance: dict[str, Any]) -> Model:
    """``x[group, item]``, and the distance of each count of a group from the mean count."""
    data, k = instance["data"].astype(float), instance["n_groups"]
    n, m = data.shape
    counts, off = kron(eye_array(k), data.T), eye_array(k * m)
    mean = np.tile(data.sum(axis=0) / k, k)
    nothing = np.full(k * m, np.inf)
    return Model(
        np.concatenate([np.zeros(k * n), np.ones(k * m)]),
        vstack([
            hstack([_assigned(k, n), csr_array((n, k * m))]),
            hstack([kron(eye_array(k), np.ones((1, n))), csr_array((k, k * m))]),
            hstack([counts, off]),
            hstack([counts, -off]),
        ]),
        np.concatenate([np.ones(n), np.ones(k), mean, -nothing]),
        np.concatenate([np.ones(n), np.full(k, np.inf), nothing, mean]),
        np.concatenate([np.ones(k * n), np.zeros(k * m)]),
        lambda x: _site_of(x, k, n),
        most=float(n),
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- graphs


def independent_set(instance: dict[str, Any]) -> Model:
    n, edges = instance["n"], instance["edges"]
    rows = csr_array((np.ones(2 * len(edges)), (np.repeat(np.arange(len(edges)), 2), edges.ravel())), (len(edges), n))
    return Model(-np.ones(n), rows, np.full(len(edges), -np.inf), np.ones(len(edges)), np.ones(n), _chosen)


def colouring(instance: dict[str, Any]) -> Model:
    """``x[colour, node]``, as many colours as a greedy colouring needs, and whether each of them is used."""
    n, edges = instance["n"], instance["edges"]
    k = len(set(_greedy_colours(n, edges)))
    ends = csr_array((np.ones(2 * len(edges)), (np.repeat(np.arange(len(edges)), 2), edges.ravel())), (len(edges), n))
    used = -kron(eye_array(k), np.ones((len(edges), 1)))
    lone = hstack([eye_array(k * n), -kron(eye_array(k), np.ones((n, 1)))])
    order = hstack([csr_array((k - 1, k * n)), eye_array(k - 1, k) - eye_array(k - 1, k, k=1)])
    rows = [hstack([_assigned(k, n), csr_array((n, k))]), hstack([kron(eye_array(k), ends), used]), lone, order]
    return Model(
        np.concatenate([np.zeros(k * n), np.ones(k)]),
        vstack(rows),
        np.concatenate([np.ones(n), np.full(k * len(edges) + k * n, -np.inf), np.zeros(k - 1)]),
        np.concatenate([np.ones(n), np.zeros(k * len(edges) + k * n), np.full(k - 1, np.inf)]),
        np.ones(k * n + k),
        lambda x: _site_of(x, k, n),
    )


def _greedy_colours(n: int, edges: np.ndarray) -> list[int]:
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    colours = np.full(n, -1)
    for node in np.argsort(-near.sum(axis=0), kind="stable").tolist():
        taken = set(colours[near[node]].tolist())
        colours[node] = next(c for c in range(n) if c not in taken)
    return [int(c) for c in colours]


def constrained_path(instance: dict[str, Any]) -> Model:
    """A unit of flow from the first vertex to the last, within the limits."""
    n, arcs = instance["n"], instance["arcs"]
    starts, ends = np.array([arc[:2] for arc in arcs]).T - 1
    number = np.arange(len(arcs))
    flow = csr_array((np.ones(len(arcs)), (starts, number)), (n, len(arcs)))
    flow = flow - csr_array((np.ones(len(arcs)), (ends, number)), (n, len(arcs)))
    net = np.zeros(n)
    net[0], net[-1] = 1.0, -1.0
    used = np.array([arc[3] for arc in arcs]) + instance["vertices"][ends]
    first = instance["vertices"][0]

    def path(x: np.ndarray) -> list[int]:
        follow = {int(starts[a]) + 1: int(ends[a]) + 1 for a in np.flatnonzero(x > 0.5)}
        found = [1]
        while found[-1] in follow:
            found.append(follow[found[-1]])
        return found

    return Model(
        np.array([arc[2] for arc in arcs]),
        vstack([flow, csr_array(used.T)]),
        np.concatenate([net, instance["lower"] - first]),
        np.concatenate([net, instance["upper"] - first]),
        np.ones(len(arcs)),
        path,
    )


# --------------------------------------------------------------------------------------------------------- bin packing


def bin_packing(instance: dict[str, Any]) -> Model:
    """Arc flow (Valério de Carvalho, 1999): items of a bin are arcs of a path along its capacity, larger ones first."""
    capacity, sizes = instance["capacity"], np.array(instance["sizes"])
    kinds, counts = np.unique(sizes, return_counts=True)
    arcs, reached = set[tuple[int, int, int]](), {0}
    for kind in range(len(kinds))[::-1]:
        size, ends = int(kinds[kind]), set[int]()
        for start in sorted(reached):
            for _ in range(int(counts[kind])):
                if start + size > capacity:
                    break
                arcs.add((start, start + size, kind))
                start += size
                ends.add(start)
        reached |= ends
    places = sorted(reached | {capacity})
    at = {place: number for number, place in enumerate(places)}
    listed = [*sorted(arcs), *((a, b, -1) for a, b in pairwise(places) if a)]
    flow = np.zeros((len(places), len(listed) + 1))
    demand = np.zeros((len(kinds), len(listed) + 1))
    for number, (start, end, kind) in enumerate(listed):
        flow[at[start], number], flow[at[end], number] = 1, -1
        if kind >= 0:
            demand[kind, number] = 1
    flow[0, -1], flow[-1, -1] = -1, 1
    costs = np.zeros(len(listed) + 1)
    costs[-1] = 1
    return Model(
        costs,
        vstack([csr_array(flow), csr_array(demand)]),
        np.concatenate([np.zeros(len(places)), counts]),
        np.concatenate([np.zeros(len(places)), np.full(len(kinds), np.inf)]),
        np.ones(len(costs)),
        lambda x: _bins(x, listed, sizes, kinds, capacity),
        most=float(len(sizes)),
    )


def _bins(
    x: np.ndarray, listed: list[tuple[int, int, int]], sizes: np.ndarray, kinds: np.ndarray, capacity: int
) -> list[list[int]]:
    left = np.rint(x[:-1]).astype(int)
    items = [np.flatnonzero(sizes == size).tolist() for size in kinds]
    leave: dict[int, list[int]] = {}
    for number, (start, _, _) in enumerate(listed):
        leave.setdefault(start, []).append(number)
    bins = []
    for _ in range(round(float(x[-1]))):
        place, packed = 0, []
        while place < capacity:
            arc = next(a for a in leave[place] if left[a] > 0)
            left[arc] -= 1
            _, place, kind = listed[arc]
            if kind >= 0 and items[kind]:
                packed.append(items[kind].pop())
        bins.append(packed)
    return bins


MODELS: Mapping[str, Callable[[dict[str, Any]], Model]] = {
    "bp_1d": bin_packing,
    "capacitated_warehouse_location": capacitated_warehouses,
    "equitable_partitioning_problem": equitable_partition,
    "generalised_assignment_problem": generalised_assignment,
    "graph_colouring": colouring,
    "maximal_independent_set": independent_set,
    "multi_demand_multidimensional_knapsack_problem": multi_demand_knapsack,
    "multidimensional_knapsack_problem": multi_knapsack,
    "p_median_capacitated": capacitated_p_median,
    "p_median_uncapacitated": p_median,
    "resource_constrained_shortest_path": constrained_path,
    "set_covering": set_covering,
    "set_partitioning": set_partitioning,
    "uncapacitated_warehouse_location": uncapacitated_warehouses,
}
"""By the middle part of the task's id."""


def full_name(name: str) -> str:
    """``set_covering``: the id of the task."""
    return f"llm4ad:optimization/co_bench/{name}_co_bench"


def main(names: list[str]) -> None:
    """Print a line for each instance of the tasks `names`, or of all."""
    for name in names or MODELS:
        task = task_of(full_name(name))
        limit = task.spec.limits.wall_seconds
        for number, instance in enumerate(training(task)):
            done = solve(MODELS[name](instance), limit)
            known = "-" if done.solution is None else f"{task.module.score(instance, done.solution):.10g}"
            print(f"{name} {number} {'proven' if done.proven else 'open'} {done.seconds:.2f} s {known}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
