"""Hybrid reentrant shop: when the last job is processed; earlier is better."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, schedule
from trace_bench.suites.llm4ad import scheduling

LABELS = ("Number of jobs", "Number of machines", "Initialization time", "Setup times", "Processing times")


class Ends(NamedTuple):
    """When each step of each job ends."""

    init: list[int]
    setup: list[int]
    main: list[int]


def instance(rng: np.random.Generator, *, n_jobs: int, n_machines: int) -> dict[str, Any]:
    """Jobs whose setups keep the server about as busy as the machines are."""
    n = int(rng.integers(max(1, n_jobs // 2), n_jobs + 1))
    m = int(rng.integers(min(2, n_machines), n_machines + 1))
    init = int(rng.integers(1, 16))
    processing = rng.integers(1, 100, size=n)
    per_machine = (init + float(processing.mean())) / m
    longest = max(1, round(2 * rng.uniform(0.6, 1.2) * per_machine))
    setup = rng.integers(1, longest + 1, size=n)
    return {"n_machines": m, "init_time": init, "setup": setup.tolist(), "processing": processing.tolist()}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's hrs files: instances between lines of dashes, each with five labelled numbers or lists."""
    found: list[dict[str, Any]] = []
    pieces = re.split("(" + "|".join(LABELS) + r")\s*:", re.sub(r"(?m)^\s*-+\s*$", "", text))
    if pieces[0].strip() or len(pieces) == 1:
        raise DataError(f"line 1: {LABELS[0]!r} must come first")
    line, values = 1 + pieces[0].count("\n"), []
    for label, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if label != LABELS[len(values) % len(LABELS)]:
            raise DataError(f"line {line}: {LABELS[len(values) % len(LABELS)]!r} is due, not {label!r}")
        values.append(Numbers("\n" * (line - 1) + body))
        line += body.count("\n")
    if len(values) % len(LABELS):
        raise DataError(f"line {line}: ends where {LABELS[len(values) % len(LABELS)]!r} is due")
    for at in range(0, len(values), len(LABELS)):
        jobs, machines, init, setups, processing = values[at : at + len(LABELS)]
        n, m = jobs.count("the number of jobs", most=10_000), machines.count("the number of machines", most=10_000)
        if not n or not m:
            raise DataError("has an instance without jobs or machines")
        one = {"n_machines": m, "init_time": init.count("the initialization time")}
        one |= {"setup": [setups.count("a setup time") for _ in range(n)]}  # type: ignore[dict-item]
        found.append(one | {"processing": [processing.count("a processing time") for _ in range(n)]})
        for numbers in (jobs, machines, init, setups, processing):
            numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The order of the server and the machine of each job."""
    n, m = len(instance["setup"]), instance["n_machines"]
    returned = program(n, m, instance["init_time"], instance["setup"], instance["processing"])
    found = checks.mapping(returned, "the solution", ("permutation", "batch_assignment"))
    order = checks.permutation(found["permutation"], "permutation", n)
    return order, checks.integers(found["batch_assignment"], "batch_assignment", length=n, low=0, high=m - 1)


def score(instance: dict[str, Any], solution: tuple[list[int], list[int]]) -> float:
    """The makespan."""
    return float(max(ends(instance, *solution).main))


def worst(instance: dict[str, Any]) -> float:
    """All steps one after another, and one more: what waits, waits for a step that is being done."""
    setup, processing = instance["setup"], instance["processing"]
    return len(setup) * instance["init_time"] + sum(setup) + sum(processing) + 1.0


def bound(instance: dict[str, Any]) -> float:
    """The server alone, with an initialization before and a processing after it; the mean load of the machines."""
    setup, processing, init = instance["setup"], instance["processing"], instance["init_time"]
    server = scheduling.one_machine_bound((init, s, p) for s, p in zip(setup, processing, strict=True))
    load = len(setup) * init + sum(processing)
    return float(max(server, -(-load // instance["n_machines"])))


def remark(instance: dict[str, Any], solution: tuple[list[int], list[int]]) -> str:
    found, (_, machine) = ends(instance, *solution), solution
    last = found.main.index(max(found.main))
    work = [0] * instance["n_machines"]
    for job, on in enumerate(machine):
        work[on] += instance["init_time"] + instance["processing"][job]
    return (
        f"Job {last} on machine {machine[last]} ends last. The machines have {min(work)} to {max(work)} to do; the "
        f"server has {sum(instance['setup'])} and ends at {max(found.setup)}."
    )


def draw(instance: dict[str, Any], solution: tuple[list[int], list[int]]) -> Drawing:
    """The machines, and below them the server."""
    found, (_, machine) = ends(instance, *solution), solution
    rows: list[list[tuple[float, float, int]]] = [[] for _ in range(instance["n_machines"] + 1)]
    for job, on in enumerate(machine):
        rows[on].append((found.init[job] - instance["init_time"], found.init[job], job))
        rows[on].append((found.main[job] - instance["processing"][job], found.main[job], job))
        rows[-1].append((found.setup[job] - instance["setup"][job], found.setup[job], job))
    return schedule(rows)


def ends(instance: dict[str, Any], order: list[int], machine: list[int]) -> Ends:
    """The schedule that follows from the order of the server and the machine of each job."""
    free = [0] * instance["n_machines"]
    init = []
    for on in machine:
        free[on] += instance["init_time"]
        init.append(free[on])
    setup, now = [0] * len(order), 0
    for job in order:
        now = max(now, init[job]) + instance["setup"][job]
        setup[job] = now
    main = []
    for job, on in enumerate(machine):
        free[on] = max(free[on], setup[job]) + instance["processing"][job]
        main.append(free[on])
    return Ends(init, setup, main)
