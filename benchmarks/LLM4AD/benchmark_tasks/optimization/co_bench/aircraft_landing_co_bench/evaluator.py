"""Aircraft landing: what planes cost that do not land at their targets; less is better.

Landing times are rounded to thousandths (`TICK`) and everything is checked on integers from there on. A time that is an
integer but for the error of a solver is taken for that integer, and no rule is stretched.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, schedule

TICK = 0.001
MOST_PLANES = 1000
"""In a file. The published ones have 500 at most."""
LONGEST = 1e6
"""Time in a file."""
FIELDS = ("appearance", "earliest", "target", "latest", "penalty_early", "penalty_late")
RUNWAYS = {7: 2} | dict.fromkeys((1, 2, 3, 6, 8), 3) | dict.fromkeys((4, 5, 9), 4) | dict.fromkeys((10, 11, 12, 13), 5)
"""The most runways with which the published problems are asked, by their number."""

Landing = tuple[list[int], list[int]]
"""Times of the planes in ticks, and their runways."""


def instance(rng: np.random.Generator, *, n_planes: int, n_runways: int) -> dict[str, Any]:
    """Planes of a few kinds, with targets as dense as one and a half times what the runways can take."""
    n = int(rng.integers(max(1, n_planes // 2), n_planes + 1))
    runways = n_runways or int(rng.integers(1, 4))
    between = _separations(rng, kinds=4)
    kind = rng.integers(4, size=n)
    mean = float(between[kind[:, None], kind[None, :]].mean())
    target = np.sort(rng.integers(0, max(1, round(0.65 * n * mean / runways)) + 1, size=n)) + 150
    earliest = target - rng.integers(5, 61, size=n)
    latest = target + rng.integers(60, 301, size=n)
    rates = rng.integers(1, 31, size=(n, 2))
    planes = [
        dict(zip(FIELDS, map(float, row), strict=True))
        for row in zip(earliest - rng.integers(20, 81, size=n), earliest, target, latest, *rates.T, strict=True)
    ]
    one = {"runways": runways, "freeze": 10.0, "planes": planes}
    one["separation"] = between[kind[:, None], kind[None, :]].astype(float).tolist()
    times, _ = first_come(one)
    for plane, time in zip(planes, times, strict=True):
        plane["latest"] = max(plane["latest"], time)  # so that there is an answer
    return one


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's airland files: the number of planes and the freeze time; of each plane its six numbers, and its
    separation from every plane. Each is asked with 1, 2 … runways, up to the most of the published results."""
    numbers = Numbers(text)
    n = numbers.count("the number of planes", most=MOST_PLANES)
    freeze = numbers.real("the freeze time")
    planes, separation = [], []
    for i in range(n):
        values = [_on_tick(numbers, "a number of a plane") for _ in range(4)] + numbers.reals(2, "a number of a plane")
        plane = dict(zip(FIELDS, values, strict=True))
        if not plane["earliest"] <= plane["target"] <= plane["latest"]:
            raise DataError(f"has a plane, number {i + 1}, whose target is not between its earliest and latest times")
        if min(plane["penalty_early"], plane["penalty_late"]) < 0:
            raise DataError(f"has a plane, number {i + 1}, with a penalty below zero")
        planes.append(plane)
        separation.append([_on_tick(numbers, "a separation") for _ in range(n)])
    numbers.end()
    if not planes:
        raise DataError("has no planes")
    most = RUNWAYS.get(int("0" + "".join(c for c in name if c.isdigit())), 1)
    one = {"freeze": freeze, "planes": planes, "separation": separation}
    return [one | {"runways": runways} for runways in range(1, most + 1)]


def _on_tick(numbers: Numbers, what: str) -> float:
    """The next number, a multiple of `TICK`: rounding others would make a window or a separation another."""
    value = numbers.real(what)
    if abs(value) > LONGEST or abs(value - _ticks(value) * TICK) > 1e-6 * TICK:
        raise DataError(
            f"{numbers.place}: {what} must be a multiple of {TICK} within {LONGEST:g} of 0, not {value:.10g}"
        )
    return value


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Landing:
    planes = instance["planes"]
    n, runways = len(planes), instance["runways"]
    returned = program(n, runways, instance["freeze"], planes, instance["separation"])
    found = checks.mapping(returned, "the solution", ("landing_times", "runways"))
    times = checks.float_array(found["landing_times"], "landing_times", shape=(n,))
    on = checks.integers(found["runways"], "runways", length=n, low=0, high=runways - 1)
    # Far outside every window a time is as wrong as just outside, and fits an integer.
    low, high = min(p["earliest"] for p in planes) - 1, max(p["latest"] for p in planes) + 1
    return [_ticks(min(max(time, low), high)) for time in times.tolist()], on


def violations(instance: dict[str, Any], landing: Landing) -> Iterator[str]:
    """Planes outside their windows, and pairs on one runway too close to each other."""
    times, on = landing
    for i, (time, plane) in enumerate(zip(times, instance["planes"], strict=True)):
        if not _ticks(plane["earliest"]) <= time <= _ticks(plane["latest"]):
            yield (
                f"plane {i} lands at {_told(time)}, outside its window {plane['earliest']:.10g} .. "
                f"{plane['latest']:.10g}"
            )
    order = sorted(range(len(times)), key=lambda i: (times[i], i))
    separation = instance["separation"]
    farthest = _ticks(max((s for i, row in enumerate(separation) for j, s in enumerate(row) if i != j), default=0.0))
    for place, j in enumerate(order):
        near = bisect_left(order, times[j] - farthest, key=lambda i: times[i])  # those before are far enough away
        for i in order[near:place]:
            if on[i] == on[j]:
                both = [(i, j)] if times[i] < times[j] else [(i, j), (j, i)]
                need, (first, second) = max((separation[a][b], (a, b)) for a, b in both)
                if times[second] - times[first] < _ticks(need):
                    yield (
                        f"plane {second} lands on runway {on[i]} at {_told(times[second])}, "
                        f"{_told(times[second] - times[first])} after plane {first}; it must be {need:.10g}"
                    )


def score(instance: dict[str, Any], landing: Landing) -> float:
    """The sum of all penalties."""
    return sum(_costs(instance, landing[0]))


def worst(instance: dict[str, Any]) -> float:
    """Each plane at the dearer end of its window, and one more."""
    return 1.0 + sum(
        max(p["penalty_early"] * (p["target"] - p["earliest"]), p["penalty_late"] * (p["latest"] - p["target"]))
        for p in instance["planes"]
    )


def bound(instance: dict[str, Any]) -> float:
    """Of some planes more than there are runways, two share one. Groups of neighbours in the order of the targets, no
    plane in two of them, cost at least what the cheapest pair of each does; the best choice of groups."""
    planes, separation = instance["planes"], instance["separation"]
    order = sorted(range(len(planes)), key=lambda i: planes[i]["target"])
    size = instance["runways"] + 1

    def pair(i: int, j: int) -> float:
        """What it costs at least to separate two planes, in the better order."""
        return min(
            max(0.0, separation[a][b] - (planes[b]["target"] - planes[a]["target"]))
            * min(planes[a]["penalty_early"], planes[b]["penalty_late"])
            for a, b in ((i, j), (j, i))
        )

    best = [0.0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        best[end] = best[end - 1]
        if end >= size:
            group = order[end - size : end]
            least = min(pair(i, j) for k, i in enumerate(group) for j in group[k + 1 :])
            best[end] = max(best[end], best[end - size] + least)
    return best[-1] * (1 - 1e-12)


def normalised(instance: dict[str, Any], score: float) -> float:
    """Where the score stands between `worst` (0) and `bound` (1) on the scale of log(1 + cost): costs of instances and
    of programs differ by factors, and 0 can be reached."""
    most = 1.0 + worst(instance)
    return math.log(most / (1.0 + score)) / math.log(most / (1.0 + bound(instance)))


def remark(instance: dict[str, Any], landing: Landing) -> str:
    costs, times = _costs(instance, landing[0]), landing[0]
    wanted = [_ticks(p["target"]) for p in instance["planes"]]
    early = [i for i in range(len(times)) if times[i] < wanted[i]]
    late = [i for i in range(len(times)) if times[i] > wanted[i]]
    most = costs.index(max(costs))
    return (
        f"{len(early)} planes land early and cost {sum(costs[i] for i in early):.10g}, {len(late)} land late and cost "
        f"{sum(costs[i] for i in late):.10g}. Plane {most} costs most, {costs[most]:.10g}: it lands at "
        f"{_told(times[most])}, its target is {_told(wanted[most])}."
    )


def draw(instance: dict[str, Any], landing: Landing) -> Drawing:
    """A row for each runway; a bar is the time before the next plane can land."""
    rows: list[list[tuple[float, float, int]]] = [[] for _ in range(instance["runways"])]
    for i, (time, on) in enumerate(zip(*landing, strict=True)):
        least = min((instance["separation"][i][j] for j in range(len(landing[0])) if j != i), default=1.0)
        rows[on].append((time * TICK, time * TICK + max(1.0, least), i))
    return schedule(rows)


def first_come(instance: dict[str, Any]) -> tuple[list[float], list[int]]:
    """Planes in the order of their targets, each on the runway where it can land first, not before its target."""
    planes, separation = instance["planes"], instance["separation"]
    times, on = [0.0] * len(planes), [0] * len(planes)
    landed: list[list[int]] = [[] for _ in range(instance["runways"])]
    for j in sorted(range(len(planes)), key=lambda i: planes[i]["target"]):
        free = [max([planes[j]["target"], *(times[i] + separation[i][j] for i in row)]) for row in landed]
        times[j] = min(free)
        on[j] = free.index(times[j])
        landed[on[j]].append(j)
    return times, on


def _separations(rng: np.random.Generator, *, kinds: int) -> np.ndarray:
    """Times between kinds of planes, 3 .. 15; a third plane in between is no short cut."""
    between = rng.integers(3, 16, size=(kinds, kinds))
    for middle in range(kinds):
        between = np.minimum(between, between[:, middle, None] + between[None, middle, :])
    return between


def _costs(instance: dict[str, Any], times: list[int]) -> list[float]:
    return [
        (plane["penalty_early"] * max(0, _ticks(plane["target"]) - time)
         + plane["penalty_late"] * max(0, time - _ticks(plane["target"]))) / 1000
        for plane, time in zip(instance["planes"], times, strict=True)
    ]  # fmt: skip


def _ticks(time: float) -> int:
    return round(time / TICK)


def _told(ticks: int) -> str:
    return f"{ticks * TICK:.10g}"
