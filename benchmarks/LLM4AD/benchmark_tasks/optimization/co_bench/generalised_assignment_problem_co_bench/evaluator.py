"""Generalised assignment: costs of giving jobs to agents within their capacities; less is better."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import location, reading


def instance(rng: np.random.Generator, *, n_agents: int, n_jobs: int) -> dict[str, Any]:
    """Types of Chu and Beasley (C: costs and consumptions unrelated; D: the less it costs, the more it takes) and of
    Laguna, Kelly, Gonzalez and Glover (E: costs fall with the inverse of the consumption)."""
    m = int(rng.integers(max(2, n_agents // 2), n_agents + 1))
    n = int(rng.integers(max(2, n_jobs // 2), n_jobs + 1))
    kind = "CDE"[int(rng.integers(3))]
    if kind == "C":
        uses, costs = rng.integers(5, 26, (m, n)), rng.integers(10, 51, (m, n))
    elif kind == "D":
        uses = rng.integers(1, 101, (m, n))
        costs = 111 - uses + rng.integers(-10, 11, (m, n))
    else:
        drawn = 1 - 10 * np.log(1 - rng.random((m, n)))
        uses = np.floor(drawn).astype(np.int64)
        costs = np.maximum(1, np.floor(1000 / drawn - 10 * rng.random((m, n)))).astype(np.int64)
    thrifty = np.bincount(uses.argmin(axis=0), uses.min(axis=0), minlength=m).astype(np.int64)
    return {"costs": costs, "uses": uses, "capacities": np.maximum(uses.sum(axis=1) * 4 // (5 * m), thrifty)}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's gap files: the number of problems; for each m and n, the costs agent by agent, the consumptions
    agent by agent, and the capacities. gap1 to gap12 hold profits to be maximized: their cost is what is missing to the
    greatest profit of the problem, so that least cost is most profit. gapa to gapf hold costs."""
    kind = re.match(r"gap(?:(\d)|[a-z](?![a-z]))", name, re.IGNORECASE)
    if not kind:
        raise DataError(
            f"{name[:40]!r} does not tell profits from costs: files of profits are named gap1 ..., of costs gapa, "
            "gapb ..."
        )
    numbers = Numbers(text)
    found = []
    for _ in range(reading.some(numbers, "the number of problems", most=1000)):
        m = reading.some(numbers, "the number of agents", most=10_000)
        n = reading.some(numbers, "the number of jobs", most=10_000)
        costs = np.array([numbers.reals(n, f"the costs of agent {i + 1}") for i in range(m)]).reshape(m, n)
        uses = np.array([numbers.reals(n, f"what jobs take of agent {i + 1}") for i in range(m)]).reshape(m, n)
        if kind[1]:
            costs = costs.max(initial=0) - costs
        capacities = np.array(numbers.reals(m, "a capacity"))
        for agent in np.flatnonzero(capacities < 0).tolist():
            raise DataError(f"agent {agent + 1} has the capacity {capacities[agent]:g}, which is below zero")
        for job in np.flatnonzero((uses > capacities[:, None]).all(axis=0)).tolist():
            raise DataError(f"job {job + 1} takes more of each agent than its capacity")
        found.append({"costs": costs, "uses": uses, "capacities": capacities})
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The agent of each job."""
    m, n = instance["costs"].shape
    given = program(m, n, instance["costs"], instance["uses"], instance["capacities"])
    return location.served(given, "the agents", clients=n, sites=m)


def violations(instance: dict[str, Any], agents: list[int]) -> Iterator[str]:
    """Every agent that is given more than its capacity."""
    takes = instance["uses"][agents, np.arange(len(agents))].tolist()
    yield from location.overloads(agents, takes, instance["capacities"].tolist(), "agent", "jobs")


def score(instance: dict[str, Any], agents: list[int]) -> float:
    return float(instance["costs"][agents, np.arange(len(agents))].sum())


def worst(instance: dict[str, Any]) -> float:
    """The dearest agent for each job."""
    return float(instance["costs"].max(axis=0).sum())


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation, at most that of the linear one; rounded up where costs are whole."""
    costs, uses = instance["costs"], instance["uses"].astype(np.float64)
    if (uses <= 0).any():
        return float(costs.min(axis=0).sum())
    found = location.lagrangian_bound(costs, weights=uses, capacities=instance["capacities"])
    return location.whole(found) if (costs == np.rint(costs)).all() else found


def remark(instance: dict[str, Any], agents: list[int]) -> str:
    costs, uses, n = instance["costs"], instance["uses"], len(agents)
    paid = costs[agents, np.arange(n)]
    full = np.bincount(agents, uses[agents, np.arange(n)], minlength=len(uses)) / np.maximum(instance["capacities"], 1)
    over = paid - costs.min(axis=0)
    job = int(over.argmax())
    return (
        f"{int((over == 0).sum())} of {n} jobs are with their cheapest agent; job {job} costs {paid[job]:.10g} with "
        f"agent {agents[job]} where its cheapest agent costs {costs[:, job].min():.10g}. Agents are filled to "
        f"{100 * full.min():.0f} .. {100 * full.max():.0f} %."
    )
