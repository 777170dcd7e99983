"""One machine and a common due date: the penalties of ending early and late; less is better.

The first job starts at 0. The literature lets it start later, which pays with late due dates (h = 0.6 and 0.8) only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import Numbers
from trace_bench.suites.drawing import Drawing, schedule

SHARES = (0.2, 0.4, 0.6, 0.8)


def instance(rng: np.random.Generator, *, n_jobs: int, h: float) -> dict[str, Any]:
    """Jobs of Biskup and Feldmann's kind."""
    n = int(rng.integers(max(1, n_jobs // 2), n_jobs + 1))
    share = h or SHARES[int(rng.integers(len(SHARES)))]
    columns = [rng.integers(1, high + 1, size=n).tolist() for high in (20, 10, 15)]
    return {"jobs": list(zip(*columns, strict=True)), "h": share}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's sch files: the number of problems, and for each the number of jobs and p, a, b of each job. Every
    problem is taken with each of the four due dates."""
    numbers = Numbers(text)
    found = []
    for _ in range(numbers.count("the number of problems", most=10_000)):
        n = numbers.count("the number of jobs", most=100_000)
        jobs = [(numbers.count("p"), numbers.count("a"), numbers.count("b")) for _ in range(n)]
        found += [{"jobs": jobs, "h": share} for share in SHARES if jobs]
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    jobs = instance["jobs"]
    return checks.permutation(program(jobs, instance["h"]), "the order", len(jobs))


def score(instance: dict[str, Any], order: list[int]) -> float:
    """The sum of all penalties."""
    return float(penalty(instance["jobs"], due_date(instance), order))


def worst(instance: dict[str, Any]) -> float:
    """Each job by itself as early or as late as it can be, and one more."""
    jobs, due = instance["jobs"], due_date(instance)
    total = sum(p for p, _, _ in jobs)
    return sum(max(a * (due - p), b * (total - due), 0) for p, a, b in jobs) + 1.0


def target(instance: dict[str, Any]) -> float:
    """A V-shaped schedule: before the due date jobs with much time for their early penalty go first, after it those
    with little time for their late penalty. Jobs change sides one by one while that helps."""
    jobs, due = instance["jobs"], due_date(instance)
    early = [False] * len(jobs)
    left = due
    for job in sorted(range(len(jobs)), key=lambda j: jobs[j][1] / max(1, jobs[j][2])):
        if jobs[job][0] <= left:
            early[job] = True
            left -= jobs[job][0]
    down = sorted(range(len(jobs)), key=lambda j: -jobs[j][0] / max(1, jobs[j][1]))
    up = sorted(range(len(jobs)), key=lambda j: jobs[j][0] / max(1, jobs[j][2]))

    def cost() -> int:
        return penalty(jobs, due, [j for j in down if early[j]] + [j for j in up if not early[j]])

    best, better = cost(), True
    for _ in range(10):
        if not better:
            break
        better = False
        for job in range(len(jobs)):
            early[job] = not early[job]
            now = cost()
            if now < best:
                best, better = now, True
            else:
                early[job] = not early[job]
    return float(best)


def remark(instance: dict[str, Any], order: list[int]) -> str:
    jobs, due = instance["jobs"], due_date(instance)
    now = early = late = tardy = 0
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
        f"The due date is {due} of {now}. {len(jobs) - tardy} jobs end by it and cost {early}, {tardy} end after it "
        f"and cost {late}. Job {most[1]}, which ends at {most[2]}, costs most: {most[0]}."
    )


def draw(instance: dict[str, Any], order: list[int]) -> Drawing:
    """The jobs in their order, and a line at the due date."""
    now, bars = 0, []
    for job in order:
        bars.append((float(now), float(now + instance["jobs"][job][0]), job))
        now += instance["jobs"][job][0]
    drawing = schedule([bars])
    due = due_date(instance)
    drawing.path([(due, 0), (due, 1)], thick=2)
    return drawing


def due_date(instance: dict[str, Any]) -> int:
    return int(instance["h"] * sum(p for p, _, _ in instance["jobs"]) + 1e-9)


def penalty(jobs: Sequence[Sequence[int]], due: int, order: Sequence[int]) -> int:
    now = total = 0
    for job in order:
        p, a, b = jobs[job]
        now += p
        total += a * (due - now) if now < due else b * (now - due)
    return total
