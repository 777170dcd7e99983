"""Open shop: when the last operation is done; earlier is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import scheduling


def instance(rng: np.random.Generator, *, n_jobs: int, n_machines: int) -> dict[str, Any]:
    """Times of Taillard's kind, uniform in 1 .. 99; as many machines as jobs, which is the hardest to do well."""
    n = int(rng.integers(max(1, n_jobs // 2), n_jobs + 1))
    m = n_machines or n
    listed = [rng.permutation(m).tolist() for _ in range(n)]
    return {"times": rng.integers(1, 100, size=(n, m)).tolist(), "machines": listed}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """Taillard's files, as OR-Library has them: sizes, times, machines."""
    return scheduling.read_shops(text, routes=True)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    times = instance["times"]
    found = program(len(times), len(times[0]), times, instance["machines"])
    return scheduling.start_times(found, times, scheduling.horizon(times))


def violations(instance: dict[str, Any], starts: list[list[int]]) -> Iterator[str]:
    """Jobs in two places at once, machines that do two things at once, an end beyond all reason."""
    times = instance["times"]
    for j, (job, spent) in enumerate(zip(starts, times, strict=True)):
        spans = [(s, s + t, f"operation {k}") for k, (s, t) in enumerate(zip(job, spent, strict=True))]
        yield from scheduling.overlaps(f"job {j}", spans)
    yield from scheduling.machine_overlaps(starts, times, instance["machines"])
    yield from scheduling.late_ends(starts, times, scheduling.horizon(times))


def score(instance: dict[str, Any], starts: list[list[int]]) -> float:
    """The makespan."""
    return float(scheduling.makespan(starts, instance["times"]))


def worst(instance: dict[str, Any]) -> float:
    """All operations one after another, and one more."""
    return scheduling.horizon(instance["times"]) + 1.0


def bound(instance: dict[str, Any]) -> float:
    """The longest job, the machine with most to do."""
    times = instance["times"]
    return float(max(*map(sum, times), *scheduling.loads(times, instance["machines"])))


def remark(instance: dict[str, Any], starts: list[list[int]]) -> str:
    return scheduling.utilisation(starts, instance["times"], instance["machines"])


def draw(instance: dict[str, Any], starts: list[list[int]]) -> Drawing:
    return scheduling.gantt(starts, instance["times"], instance["machines"])
