"""Jobs that arrive one at a time on identical machines: when the last machine is done; earlier is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, schedule


def instance(rng: np.random.Generator, *, n_jobs: int, n_machines: int) -> dict[str, Any]:
    """Processing times drawn uniformly from 1 .. 100."""
    return {"times": rng.integers(1, 101, n_jobs).astype(float), "n_machines": n_machines}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """Plays the jobs in order of arrival: the machine of each. The evaluator holds the loads, not the candidate."""
    loads = np.zeros(instance["n_machines"])
    machines = []
    for job, time in enumerate(instance["times"].tolist()):
        machine = checks.integer(program(time, loads), f"the machine of job {job}", low=0, high=len(loads) - 1)
        loads[machine] += time
        machines.append(machine)
    return machines


def score(instance: dict[str, Any], machines: list[int]) -> float:
    """The largest load."""
    return float(_loads(instance, machines).max())


def worst(instance: dict[str, Any]) -> float:
    """All jobs on one machine."""
    return float(instance["times"].sum())


def bound(instance: dict[str, Any]) -> float:
    """No machine can be done before the mean load, or before the longest job is."""
    return float(max(instance["times"].sum() / instance["n_machines"], instance["times"].max()))


def remark(instance: dict[str, Any], machines: list[int]) -> str:
    loads = _loads(instance, machines)
    return f"Loads are from {loads.min():g} (machine {loads.argmin()}) to {loads.max():g} (machine {loads.argmax()})."


def draw(instance: dict[str, Any], machines: list[int]) -> Drawing:
    rows: list[list[tuple[float, float, int]]] = [[] for _ in range(instance["n_machines"])]
    for job, (machine, time) in enumerate(zip(machines, instance["times"].tolist(), strict=True)):
        begin = rows[machine][-1][1] if rows[machine] else 0.0
        rows[machine].append((begin, begin + time, job))
    return schedule(rows)


def _loads(instance: dict[str, Any], machines: list[int]) -> np.ndarray:
    return np.bincount(machines, weights=instance["times"], minlength=instance["n_machines"])
