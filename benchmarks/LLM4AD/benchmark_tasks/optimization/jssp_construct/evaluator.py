"""Job shop by construction: plays a rule operation by operation; earlier ends are better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import scheduling


def instance(rng: np.random.Generator, *, n_jobs: int, n_machines: int) -> dict[str, Any]:
    """Times and routes of Taillard's kind: uniform in 1 .. 99, and random permutations."""
    routes = [rng.permutation(n_machines).tolist() for _ in range(n_jobs)]
    return {"times": rng.integers(1, 100, size=(n_jobs, n_machines)).tolist(), "machines": routes}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    """When each operation starts."""
    times, machines = instance["times"], instance["machines"]
    shown = {"times": np.array(times), "machines": np.array(machines)}
    free, ready, following = [0] * scheduling.machine_count(machines), [0] * len(times), [0] * len(times)
    starts: list[list[int]] = [[] for _ in times]
    for step in range(sum(map(len, times))):
        offered = [(job, machines[job][k], times[job][k]) for job, k in enumerate(following) if k < len(times[job])]
        status = {"machine_status": free, "job_status": ready, "next_operation": following, **shown}
        job, machine, time = _chosen(program(status, offered), offered, step)
        start = max(free[machine], ready[job])
        starts[job].append(start)
        free[machine] = ready[job] = start + time
        following[job] += 1
    return starts


def _chosen(answered: Any, offered: list[tuple[int, int, int]], step: int) -> tuple[int, int, int]:
    """The operation that a step answered, which must be one that was on offer."""
    what = f"the operation of step {step}"
    job, machine, time = checks.integers(answered, what, length=3, low=-(2**62), high=2**62)
    if (job, machine, time) not in offered:
        raise checks.refuse(
            f"step {step}: operation ({job}, {machine}, {time}) is not among the {len(offered)} on offer, "
            f"which begin with {offered[0]}"
        )
    return job, machine, time


def score(instance: dict[str, Any], starts: list[list[int]]) -> float:
    """The makespan."""
    return float(scheduling.makespan(starts, instance["times"]))


def worst(instance: dict[str, Any]) -> float:
    """All operations one after another, and one more."""
    return scheduling.horizon(instance["times"]) + 1.0


def bound(instance: dict[str, Any]) -> float:
    return float(scheduling.job_shop_bound(instance["times"], instance["machines"]))


def remark(instance: dict[str, Any], starts: list[list[int]]) -> str:
    return scheduling.utilisation(starts, instance["times"], instance["machines"])


def draw(instance: dict[str, Any], starts: list[list[int]]) -> Drawing:
    return scheduling.gantt(starts, instance["times"], instance["machines"])
