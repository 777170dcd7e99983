"""What location, assignment and covering tasks share: bounds by relaxation, loads, and the reading of sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import reading

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SAFE = 1e-9
"""Relative: bounds are lowered by so much, more than rounding can have raised them."""
_LARGE = 400_000
"""Entries of a matrix beyond which linear programming takes longer than a bound is worth."""


def whole(bound: float) -> float:
    """The least whole number that is not below `bound`: a bound too, where all scores are whole."""
    return float(math.ceil(bound - 1e-6 * max(1.0, abs(bound) * 1e-3)))


def lagrangian_bound(
    costs: Floats,
    *,
    opening: Floats | None = None,
    weights: Floats | None = None,
    capacities: Floats | None = None,
    sites: int | None = None,
    steps: int = 100,
) -> float:
    """A lower bound for serving each client once, from sites that are opened.

    Relaxes "each client is served once" with a price for each client, raised by subgradient steps (Held, Wolfe,
    Crowder, 1974); each site then takes what pays, a continuous knapsack. Every set of prices gives a bound, so what is
    returned holds however well the steps went; it is at most that of the linear relaxation.

    Args:
        costs: of serving all of client j from site i, shape (m, n).
        opening: cost of using site i at all, shape (m,); None is 0.
        weights: capacity that client j takes at site i, shape (m, n), above 0; None: nothing is limited.
        capacities: shape (m,).
        sites: at most so many may be open; None: any number.
        steps: subgradient steps.
    """
    fixed = np.zeros(len(costs)) if opening is None else np.asarray(opening, dtype=np.float64)
    prices = costs.min(axis=0).astype(np.float64)
    if opening is not None or sites is not None:  # a client brings in something towards the opening, too
        prices += (np.partition(costs, 1, axis=0)[1] - prices) / 2 if len(costs) > 1 else 0
    best, pace, since = -math.inf, 1.6, 0
    for _ in range(steps):
        share = _taken(costs - prices, weights, capacities)
        worth = fixed + ((costs - prices) * share).sum(axis=1)
        used = worth < 0
        if sites is not None and used.sum() > sites:
            used = np.zeros(len(worth), dtype=bool)
            used[np.argsort(worth, kind="stable")[:sites]] = True
        value = float(prices.sum() + worth[used].sum())
        slope = 1 - share[used].sum(axis=0)
        size = float((slope**2).sum())
        if value > best:
            best, since = value, 0
        else:
            since += 1
            if since >= 5:
                pace, since = pace * 0.6, 0
        if size == 0:
            break
        prices = prices + pace * (abs(best) * 0.05 + (best - value) + 1e-9) / size * slope
    return best - _SAFE * abs(best)


def _taken(gains: Floats, weights: Floats | None, capacities: Floats | None) -> Floats:
    """The share of each client that each site takes: what pays, the best of it per unit of capacity first."""
    pays = gains < 0
    if weights is None or capacities is None:
        return pays.astype(np.float64)
    order = np.argsort(np.where(pays, gains / weights, 0.0), axis=1, kind="stable")
    needs = np.take_along_axis(np.where(pays, weights, 0.0), order, axis=1)
    room = capacities[:, None] - (np.cumsum(needs, axis=1) - needs)
    part = np.where(needs > 0, np.clip(room / np.where(needs > 0, needs, 1.0), 0.0, 1.0), 0.0)
    share = np.zeros_like(gains, dtype=np.float64)
    np.put_along_axis(share, order, part, axis=1)
    return share


def covering_bound(costs: Floats, sets: Sequence[Sequence[int]], elements: int, *, exact: bool = False) -> float:
    """A lower bound for covering each element at least (or exactly) once by sets, by linear relaxation.

    The prices of the elements come from the relaxation's dual; the bound is recomputed from them, so that it holds
    whatever tolerance they were found with. Where the relaxation is large, or has no solution, an element's price is
    the least that a set takes for each of its elements.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_matrix

    ends = np.cumsum([0, *(len(s) for s in sets)])
    rows = np.array([row for s in sets for row in s], dtype=np.int64)
    matrix = csc_matrix((np.ones(len(rows)), rows, ends), shape=(elements, len(sets)))
    ones, done = np.ones(elements), None
    if len(rows) <= _LARGE:
        side = {"A_eq": matrix, "b_eq": ones} if exact else {"A_ub": -matrix, "b_ub": -ones}
        done = linprog(costs, bounds=(0, None), method="highs", **side)
    if done is None or done.status != 0:
        prices = np.full(elements, np.inf)
        np.minimum.at(prices, rows, np.repeat(costs / np.maximum(1, np.diff(ends)), np.diff(ends)))
        prices = np.where(np.isfinite(prices), prices if exact else np.maximum(0.0, prices), 0.0)
    else:
        prices = done.eqlin.marginals if exact else np.maximum(0.0, -done.ineqlin.marginals)
    best = float(prices.sum() + np.minimum(0.0, costs - matrix.T @ prices).sum())
    return best - _SAFE * abs(best)


def served(answer: Any, name: str, *, clients: int, sites: int) -> list[int]:
    """The site of each client."""
    return checks.integers(answer, name, length=clients, low=0, high=sites - 1)


def overloads(
    of: Sequence[int], needs: Sequence[float], capacities: Sequence[float], site: str, clients: str
) -> Iterator[str]:
    """A sentence for each site that is given more than its capacity: client j takes ``needs[j]`` of site ``of[j]``."""
    load: dict[int, float] = {}
    count: dict[int, int] = {}
    for where, need in zip(of, needs, strict=True):
        load[where] = load.get(where, 0) + need
        count[where] = count.get(where, 0) + 1
    for where in sorted(load):
        if load[where] > capacities[where]:
            over = load[where] - capacities[where]
            yield (
                f"{site} {where} has capacity {capacities[where]:.10g} and its {count[where]} {clients} take "
                f"{load[where]:.10g}, {over:.10g} too much"
            )


def subset(answer: Any, name: str, size: int) -> list[int]:
    """Different numbers of 0 .. size - 1, ascending."""
    found = checks.sequence(answer, name, longest=size)
    numbers = checks.integers(found, name, low=0, high=size - 1)
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            raise checks.refuse(f"{name} must name each at most once, and name {number} twice")
        seen.add(number)
    return sorted(numbers)


def coverage(sets: Sequence[Sequence[int]], chosen: Sequence[int], elements: int) -> Ints:
    """How often each element is covered by the chosen sets."""
    times = np.zeros(elements, dtype=np.int64)
    for number in chosen:
        times[sets[number]] += 1
    return times


def members(numbers: Sequence[int], elements: int, what: str) -> list[int]:
    """Element numbers as a file has them (from 1) as different numbers from 0, ascending."""
    found = sorted(set(numbers))
    if found and not (found[0] >= 1 and found[-1] <= elements):
        raise DataError(f"{what} names {found[0]} .. {found[-1]}; numbers must lie within 1 .. {elements}")
    return [number - 1 for number in found]


def pairing_bound(flows: Ints, distances: Ints, *, most: bool = False) -> float:
    """No placement of facilities costs less (or more, with `most`): Gilmore (1962) and Lawler (1963).

    Facility i at location k meets at best the small distances of k with the large flows of i; the best assignment of
    facilities to locations by these costs is a bound. Whole numbers in, and the bound is exact.
    """
    from scipy.optimize import linear_sum_assignment

    n = len(flows)
    off = ~np.eye(n, dtype=bool)
    up = np.sort(flows[off].reshape(n, n - 1), axis=1)
    other = np.sort(distances[off].reshape(n, n - 1), axis=1)
    costs = up @ (other if most else other[:, ::-1]).T + np.outer(np.diag(flows), np.diag(distances))
    return float(costs[linear_sum_assignment(costs, maximize=most)].sum())


def warehouses(rng: np.random.Generator, most_sites: int, most_clients: int, *, detour: float = 1.0) -> dict[str, Any]:
    """Sites and customers at points of a square; from half of `most_sites` up to it, and so with the customers.

    A way is as long as the distance of its ends times a factor of its own, drawn from 1 .. `detour`.

    Returns:
        ``sites`` (m, 2), ``customers`` (n, 2); ``fixed_costs`` (m,), whole; ``demands`` (n,), whole; ``costs`` (n, m)
        of supplying all that a customer demands, whole: a tenth of demand times way, at least 1.
    """
    m = int(rng.integers(max(1, most_sites // 2), most_sites + 1))
    n = int(rng.integers(max(1, most_clients // 2), most_clients + 1))
    sites, customers = rng.random((m, 2)) * 100, rng.random((n, 2)) * 100
    demands = rng.integers(10, 101, n)
    between = customers[:, None, :] - sites[None, :, :]
    far = np.sqrt((between**2).sum(axis=2))
    if detour > 1:
        far = far * rng.uniform(1, detour, far.shape)
    return {
        "sites": sites,
        "customers": customers,
        "fixed_costs": rng.integers(500, 1501, m),
        "demands": demands,
        "costs": np.maximum(1, np.rint(demands[:, None] * far / 10)).astype(np.int64),
    }


def read_warehouses(text: str, *, limited: bool) -> dict[str, Any]:
    """OR-Library's cap files: m and n; capacity and fixed cost of each site; for each customer its demand, and what all
    of it costs from each site. With `limited` off, capacities are passed over: some files have a word there."""
    numbers = Numbers(text)
    m = reading.some(numbers, "the number of warehouses", most=10_000)
    n = reading.some(numbers, "the number of customers", most=10_000)
    capacities, fixed = [], []
    for site in range(m):
        what = f"the capacity of warehouse {site + 1}"
        if limited:
            capacities.append(numbers.real(what))
        else:
            numbers.word(what)
        fixed.append(numbers.real(f"the fixed cost of warehouse {site + 1}"))
    demands, costs = [], []
    for customer in range(n):
        demands.append(numbers.real(f"the demand of customer {customer + 1}"))
        costs.append(numbers.reals(m, f"a cost of customer {customer + 1}"))
    numbers.end()
    if limited and sum(capacities) < sum(demands):
        raise DataError(f"demands of {sum(demands):.10g} exceed all capacities together, {sum(capacities):.10g}")
    return {
        "fixed_costs": np.array(fixed),
        "capacities": np.array(capacities),
        "demands": np.array(demands),
        "costs": np.array(costs).reshape(n, m),
    }


def draw_supply(instance: dict[str, Any], links: Sequence[tuple[int, int]]) -> Drawing:
    """Warehouses (used ones filled), customers, and a line from each customer to each of its warehouses."""
    drawing, used = Drawing(0, 100, 0, 100), {site for _, site in links}
    customers, sites = instance["customers"], instance["sites"]
    for customer, site in links:
        drawing.path([customers[customer], sites[site]], line=colour(site))
    drawing.dots(customers)
    for site, (x, y) in enumerate(sites.tolist()):
        drawing.rectangle(x - 1, y - 1, 2, 2, fill=colour(site) if site in used else "none")
    return drawing
