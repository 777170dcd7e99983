"""Periodic vehicle routing: tours for each day of a period, such that every customer is visited by one of its
schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import routing, vehicles

ROUNDING = 1e-9
"""Of a load, relative: demands and capacities of generated instances are whole numbers, where it gains nothing."""
_BRACKETS = str.maketrans("[],", "   ")
Days = tuple[int, ...]
Plan = list[list[list[int]]]


def instance(rng: np.random.Generator, *, problem_size: int, period_length: int, capacity: int) -> dict[str, Any]:
    """A depot in the middle of a square; customers to be visited once, twice or every day. There is one vehicle a day
    more than a simple way to spread the loads needs."""
    n = int(rng.integers((problem_size + 1) // 2, problem_size, endpoint=True))
    points = np.vstack([[50.0, 50.0], np.round(rng.random((n, 2)) * 100, 2)])
    demands = np.concatenate([[0], rng.integers(1, min(9, capacity), size=n, endpoint=True)])
    half = period_length // 2  # of an odd number of days the last one is in no pair
    kinds: list[list[Days]] = [
        [(day,) for day in range(period_length)],
        [(day, day + half) for day in range(half)] or [(0,)],
        [tuple(range(period_length))],
    ]
    schedules = [kinds[kind] for kind in rng.choice(3, size=n, p=[0.5, 0.35, 0.15]).tolist()]
    return _of(
        points, demands, schedules, period_length, _spread(demands, schedules, period_length, capacity), capacity
    )


def _of(
    points: np.ndarray,
    demands: np.ndarray,
    schedules: list[list[Days]],
    period: int,
    fleet: list[int],
    capacity: float,
) -> dict[str, Any]:
    return {
        "points": points,
        "distances": routing.distances(points),
        "demands": demands,
        "schedules": schedules,
        "period": period,
        "fleet": fleet,
        "capacity": capacity,
    }


def _spread(demands: np.ndarray, schedules: list[list[Days]], period: int, capacity: int) -> list[int]:
    """One more than the vehicles of the fullest day: schedules by least load, then vehicles by first fit, both in the
    order of falling demands."""
    order = np.argsort(-demands[1:], kind="stable").tolist()
    loads = [0] * period
    days: list[list[int]] = [[] for _ in range(period)]
    for customer in order:
        chosen = min(schedules[customer], key=lambda s: (max(loads[day] for day in s), s))
        for day in chosen:
            loads[day] += int(demands[customer + 1])
            days[day].append(int(demands[customer + 1]))
    most = 0
    for loaded in days:
        bins: list[int] = []
        for demand in loaded:
            fits = next((k for k, load in enumerate(bins) if load + demand <= capacity), None)
            if fits is None:
                bins.append(demand)
            else:
                bins[fits] += demand
        most = max(most, len(bins))
    return [most + 1] * period


def read(text: str, name: str) -> list[dict[str, Any]]:
    """One instance: a line with the numbers of customers and days; one with the vehicles of each day; one with the
    capacity; then a line for each vertex, its number (0: the depot), x, y, demand, and the list of its schedules,
    lists of 0 and 1.
    """
    rows = [
        Numbers("\n" * number + row.translate(_BRACKETS)) for number, row in enumerate(text.splitlines()) if row.strip()
    ]
    if len(rows) < 5:
        raise DataError("has fewer lines than three, a depot and a customer take")
    size, period = rows[0].count("the number of customers"), rows[0].count("the number of days", most=60)
    fleet = [rows[1].count("the vehicles of a day") for _ in range(period)]
    capacity = rows[2].real("the capacity")
    n = len(rows) - 4
    if n not in (size, size - 1) or period < 1:  # some count the depot
        raise DataError(f"has {n} customers in {period} days, and says {size}")
    points, demands = np.zeros((n + 1, 2)), np.zeros(n + 1)
    schedules: list[list[Days]] = []
    for node, row in enumerate(rows[3:]):
        if row.integer("the number of a vertex") != node:
            raise DataError(f"has another vertex where {node} is due")
        points[node] = row.reals(2, "a coordinate")
        if node == 0:
            continue
        demands[node] = row.real("the demand")
        schedules.append([])
        while not row.done:
            bits = row.integers(period, "0 or 1 for a day")
            schedules[-1].append(tuple(day for day, bit in enumerate(bits) if bit))
        if not schedules[-1] or not all(schedules[-1]) or not 0 <= demands[node] <= capacity:
            raise DataError(f"has a customer {node} whom no day or no vehicle suits")
    for row in rows[:3]:
        row.end()
    if not any(fleet):
        raise DataError("has no vehicle on any day")
    return [_of(points, demands, schedules, period, fleet, capacity)]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Plan:
    points, period = instance["points"], instance["period"]
    customers = [
        {
            "id": node,
            "x": float(points[node, 0]),
            "y": float(points[node, 1]),
            "demand": instance["demands"][node].item(),
            "schedules": [[int(day in days) for day in range(period)] for days in instance["schedules"][node - 1]],
        }
        for node in range(1, len(points))
    ]
    fleet, n = instance["fleet"], len(customers)
    found = program(tuple(points[0].tolist()), customers, fleet, float(instance["capacity"]), period)
    plan: Plan = []
    visits = 0
    for day, tours in enumerate(checks.sequence(found, "the days", length=period)):
        plan.append([])
        listed = checks.sequence(tours, f"the tours of day {day}", longest=n + fleet[day])  # empty ones may be there
        for number, tour in enumerate(listed):
            name = f"tour {number} of day {day}"
            nodes = checks.sequence(tour, name, longest=n)
            visits += len(nodes)
            if visits > n * period:
                raise checks.refuse(f"the plan has more than {n * period} visits, {n} customers on {period} days")
            plan[-1].append(checks.integers(nodes, name, low=1, high=n))
    return plan


def violations(instance: dict[str, Any], plan: Plan) -> Iterator[str]:
    """Too many tours, overloaded tours, customers visited twice a day or by no schedule of theirs."""
    demands, capacity = instance["demands"], instance["capacity"]
    visited: list[list[int]] = [[] for _ in demands]
    for day, tours in enumerate(plan):
        if (used := sum(map(bool, tours))) > instance["fleet"][day]:
            yield f"day {day} has {used} tours, and only {instance['fleet'][day]} vehicles"
        for number, tour in enumerate(tours):
            load = float(demands[tour].sum())
            if load > capacity * (1 + ROUNDING):
                yield f"tour {number} of day {day} carries {load:g}, {load - capacity:g} over the capacity {capacity:g}"
            for node in tour:
                visited[node].append(day)
    for node, days in enumerate(visited[1:], start=1):
        twice = sorted(day for day, times in Counter(days).items() if times > 1)
        if twice:
            yield f"customer {node} is visited more than once on day {twice[0]}"
        elif tuple(sorted(days)) not in instance["schedules"][node - 1]:
            listed = f"on days {', '.join(map(str, sorted(days)))}" if days else "on no day"
            count = len(instance["schedules"][node - 1])
            yield f"customer {node} is visited {listed}, which is none of its {count} schedules"


def score(instance: dict[str, Any], plan: Plan) -> float:
    """Length of all tours of all days."""
    return vehicles.total_length([tour for tours in plan for tour in tours], instance["distances"])


def worst(instance: dict[str, Any]) -> float:
    """Every visit of each customer's longest schedule a tour of its own."""
    most = np.array([max(map(len, schedules)) for schedules in instance["schedules"]])
    return 2 * float((instance["distances"][0, 1:] * most).sum()) * (1 + 1e-12)


def bound(instance: dict[str, Any]) -> float:
    """The largest of three: one tour through all; loads at their distances; loads of whole numbers on routes."""
    between, demands, capacity = instance["distances"], instance["demands"], instance["capacity"]
    least = np.array([min(map(len, schedules)) for schedules in instance["schedules"]])
    ridden = 2 * float((between[0, 1:] * demands[1:] * least).sum()) / capacity * (1 - 1e-9)
    found = max(routing.tour_bound(between, steps=25), ridden)
    even = all(len(set(map(len, schedules))) == 1 for schedules in instance["schedules"])
    whole = (demands[1:] > 0).all() and (demands == np.round(demands)).all() and capacity == int(capacity)
    return max(found, vehicles.load_bound(instance, visits=least, steps=16)) if even and whole else found


def remark(instance: dict[str, Any], plan: Plan) -> str:
    between, demands = instance["distances"], instance["demands"]
    days = [
        f"day {day}: {vehicles.total_length(tours, between):.1f} for {sum(map(len, tours))} visits by "
        f"{sum(map(bool, tours))} of {instance['fleet'][day]} vehicles"
        for day, tours in enumerate(plan)
    ]
    used = [tour for tours in plan for tour in tours if tour]
    full = float(sum(demands[tour].sum() for tour in used)) / (instance["capacity"] * max(1, len(used)))
    return f"Tours are {100 * full:.0f} % full on average. {'; '.join(days[:7])}{' …' if len(days) > 7 else ''}."


def draw(instance: dict[str, Any], plan: Plan) -> Drawing:
    """The tours of the first day."""
    return vehicles.draw(instance["points"], plan[0])
