"""What differs from the evaluator of the interaction ``solve``: how a program is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """Plays the jobs in order of arrival: the machine of each. The evaluator holds the loads, not the candidate."""
    loads = np.zeros(instance["n_machines"])
    machines = []
    for job, time in enumerate(instance["times"].tolist()):
        machine = checks.integer(program(time, loads), f"the machine of job {job}", low=0, high=len(loads) - 1)
        loads[machine] += time
        machines.append(machine)
    return machines
