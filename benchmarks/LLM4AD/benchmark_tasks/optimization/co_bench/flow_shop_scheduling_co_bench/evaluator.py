"""Permutation flow shop: when the last job is done; earlier is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import scheduling


def instance(rng: np.random.Generator, *, n_jobs: int, n_machines: int) -> dict[str, Any]:
    """Times of Taillard's kind: uniform in 1 .. 99."""
    n = int(rng.integers(max(1, n_jobs // 2), n_jobs + 1))
    m = int(rng.integers(max(1, n_machines // 3), n_machines + 1))
    return {"times": rng.integers(1, 100, size=(n, m)).tolist()}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """Taillard's files, as OR-Library has them: sizes, then a row of times for each machine."""
    return scheduling.read_shops(text, routes=False)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    times = instance["times"]
    return checks.permutation(program(len(times), len(times[0]), times), "the order", len(times))


def score(instance: dict[str, Any], order: list[int]) -> float:
    """The makespan."""
    return float(max(ends[-1] for ends in completions(instance["times"], order)))


def worst(instance: dict[str, Any]) -> float:
    """One more than a path of waits can add up to: it takes one operation of each job, and one more for each further
    machine."""
    times = instance["times"]
    return sum(map(max, times)) + sum(map(max, zip(*times, strict=True))) + 1.0


def bound(instance: dict[str, Any]) -> float:
    return float(scheduling.job_shop_bound(instance["times"], _routes(instance)))


def remark(instance: dict[str, Any], order: list[int]) -> str:
    times = instance["times"]
    ends = completions(times, order)
    work = scheduling.loads(times, _routes(instance))
    busiest = work.index(max(work))
    first = ends[0][busiest] - times[order[0]][busiest]
    idle = ends[-1][busiest] - first - work[busiest]
    return (
        f"The busiest machine, {busiest} of 0 .. {len(work) - 1}, works {work[busiest]}; it begins at {first}, stands "
        f"idle for {idle} between jobs, and {ends[-1][-1] - ends[-1][busiest]} pass after its last one."
    )


def draw(instance: dict[str, Any], order: list[int]) -> Drawing:
    times = instance["times"]
    starts: list[list[int]] = [[] for _ in times]
    for job, ends in zip(order, completions(times, order), strict=True):
        starts[job] = [end - time for end, time in zip(ends, times[job], strict=True)]
    return scheduling.gantt(starts, times, _routes(instance))


def completions(times: list[list[int]], order: list[int]) -> list[list[int]]:
    """When each job of the order ends on each machine."""
    found, before = [], [0] * len(times[0])
    for job in order:
        now, ends = 0, []
        for time, free in zip(times[job], before, strict=True):
            now = max(now, free) + time
            ends.append(now)
        found.append(ends)
        before = ends
    return found


def _routes(instance: dict[str, Any]) -> list[list[int]]:
    return [list(range(len(job))) for job in instance["times"]]
