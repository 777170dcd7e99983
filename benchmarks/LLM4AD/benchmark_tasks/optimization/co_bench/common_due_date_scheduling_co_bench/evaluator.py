"""One machine and a common due date: the penalties of ending early and late; less is better.

The first job starts at 0 unless ``start`` is "free". The published values are those of a free start, which pays with
late due dates (h = 0.6 and 0.8) only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, schedule

SHARES = (0.2, 0.4, 0.6, 0.8)
FREE = (
    "Other than said above, the first job need not start at time 0: the jobs still follow one another without a pause, "
    "but all of them start later by the same time, the one of 0, 1, 2 … for which the order costs least."
)


def instance(rng: np.random.Generator, *, n_jobs: int, h: float, start: str) -> dict[str, Any]:
    """Jobs of Biskup and Feldmann's kind."""
    n = int(rng.integers(max(1, n_jobs // 2), n_jobs + 1))
    share = h or SHARES[int(rng.integers(len(SHARES)))]
    columns = [rng.integers(1, high + 1, size=n).tolist() for high in (20, 10, 15)]
    return {"jobs": list(zip(*columns, strict=True)), "h": share, "free": start == "free"}


def described(*, n_jobs: int, h: float, start: str) -> str:
    return FREE if start == "free" else ""


def read(text: str, name: str, *, start: str = "zero") -> list[dict[str, Any]]:
    """OR-Library's sch files: the number of problems, and for each the number of jobs and p, a, b of each job. Every
    problem is taken with each of the four due dates."""
    numbers = Numbers(text)
    found = []
    for _ in range(numbers.count("the number of problems", least=1, most=10_000)):
        n = numbers.count("the number of jobs", least=1, most=2000)
        jobs = [(numbers.count("p"), numbers.count("a"), numbers.count("b")) for _ in range(n)]
        if any(p == 0 for p, _, _ in jobs):
            raise DataError("has a job that takes no time")
        found += [{"jobs": jobs, "h": share, "free": start == "free"} for share in SHARES]
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    jobs = instance["jobs"]
    return checks.permutation(program(jobs, instance["h"]), "the order", len(jobs))


def score(instance: dict[str, Any], order: list[int]) -> float:
    """The sum of all penalties."""
    return float(penalty(instance["jobs"], due_date(instance) - start_of(instance, order), order))


def worst(instance: dict[str, Any]) -> float:
    """Each job by itself as early or as late as it can be, and one more."""
    jobs, due = instance["jobs"], due_date(instance)
    total = sum(p for p, _, _ in jobs)
    return sum(max(a * (due - p), b * (total - due), 0) for p, a, b in jobs) + 1.0


def bound(instance: dict[str, Any]) -> float:
    """What it costs at least if jobs may be split into small pieces that each pay for themselves.

    Of a job that ends late, a piece of length e whose middle is x after the due date pays e * (b x / p + b / 2), which
    adds up to b (C - d) for the whole job; of one that ends early, e * (a x / p - a / 2) likewise. The job across the
    due date pays no more than it costs. With u[j] of each job after the due date, sum u = total - d (or more if the
    first job may start later), the cheapest arrangement is a convex quadratic function of u: pieces with high b / p
    (a / p) are next to the due date. The method of Frank and Wolfe (1956) has a lower bound of its least value in each
    step; penalties are integers, so it is rounded up.
    """
    time, early, late = np.array(instance["jobs"], dtype=float).T
    after = float(time.sum()) - due_date(instance)
    before = _shared(early / time)
    both = before + _shared(late / time)
    slope = (early + late) / 2 - before @ time
    fixed = float(time @ (before @ time) - early @ time) / 2
    u = time * (after / time.sum())
    best = 0.0
    for _ in range(60):
        pull = both @ u
        gradient = pull + slope
        order = np.argsort(gradient, kind="stable")
        taken = np.cumsum(time[order]) - time[order]
        corner = np.zeros_like(u)
        corner[order] = np.clip(after - taken, 0.0, time[order])
        if instance.get("free"):
            corner = np.where(gradient < 0.0, time, corner)
        gap = float((gradient * (u - corner)).sum())
        best = max(best, float((u * pull).sum() / 2 + (slope * u).sum() + fixed) - gap)
        step = corner - u
        bend = float(step @ (both @ step))
        if gap < 1e-3 or bend <= 0.0:
            break
        u = u + min(1.0, gap / bend) * step
    return float(math.ceil(best - 1e-6))


def _shared(rates: np.ndarray) -> np.ndarray:
    """What two pieces cost each other for each unit of their lengths: the one with the lower rate lies behind."""
    return np.minimum(rates[:, None], rates[None, :])


def remark(instance: dict[str, Any], order: list[int]) -> str:
    jobs, due = instance["jobs"], due_date(instance)
    now = start_of(instance, order)
    begins = f" The first job starts at {now}." if instance.get("free") else ""
    early = late = tardy = 0
    most = (-1, 0, 0)
    for job in order:
        p, a, b = jobs[job]
        now += p
        cost = a * max(0, due - now) + b * max(0, now - due)
        early += a * max(0, due - now)
        late += b * max(0, now - due)
        tardy += now > due
        most = max(most, (cost, job, now))
    return (
        f"The due date is {due} of {now}.{begins} {len(jobs) - tardy} jobs end by it and cost {early}, {tardy} end "
        f"after it and cost {late}. Job {most[1]}, which ends at {most[2]}, costs most: {most[0]}."
    )


def draw(instance: dict[str, Any], order: list[int]) -> Drawing:
    """The jobs in their order, and a line at the due date."""
    now, bars = start_of(instance, order), []
    for job in order:
        bars.append((float(now), float(now + instance["jobs"][job][0]), job))
        now += instance["jobs"][job][0]
    drawing = schedule([bars])
    due = due_date(instance)
    drawing.path([(due, 0), (due, 1)], thick=2)
    return drawing


def start_of(instance: dict[str, Any], order: Sequence[int]) -> int:
    """When the first job starts: 0, or where starts are free the earliest time at which the order costs least.

    The penalty is a convex function of the start. It bends where a job ends at the due date, so each of these times is
    tried in turn until later ones cost no less.
    """
    if not instance.get("free"):
        return 0
    jobs, due = instance["jobs"], due_date(instance)
    ends = list(accumulate(jobs[job][0] for job in order))
    early = [(end, job) for end, job in zip(ends, order, strict=True) if end < due]
    slope = sum(jobs[job][2] for job in order[len(early) :]) - sum(jobs[job][1] for _, job in early)
    start = 0
    while early and slope < 0:
        end, job = early.pop()
        start = due - end
        slope += jobs[job][1] + jobs[job][2]
    return start


def due_date(instance: dict[str, Any]) -> int:
    return int(instance["h"] * sum(p for p, _, _ in instance["jobs"]) + 1e-9)


def penalty(jobs: Sequence[Sequence[int]], due: int, order: Sequence[int]) -> int:
    now = total = 0
    for job in order:
        p, a, b = jobs[job]
        now += p
        total += a * (due - now) if now < due else b * (now - due)
    return total
