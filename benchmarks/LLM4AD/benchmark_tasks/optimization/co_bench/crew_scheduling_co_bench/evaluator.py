"""Crew scheduling: the cost of the transitions between tasks; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, schedule
from trace_bench.suites.llm4ad import reading

DAY, DUTY, PAUSE = 1440, 480, 120
CREWS = {50: 27, 100: 44, 150: 69, 200: 93, 250: 108, 300: 130, 350: 144, 400: 159, 450: 182, 500: 204}
"""The fewest crews for which the published problems are asked, by the number of their tasks."""


def instance(rng: np.random.Generator, *, n_tasks: int) -> dict[str, Any]:
    """Trips of a day between places of a square, and as many crews as a simple rule needs."""
    n = int(rng.integers(max(1, n_tasks // 2), n_tasks + 1))
    length = rng.integers(20, 121, size=n)
    start = rng.integers(0, DAY - 120, size=n)
    origin, goal = rng.random((n, 2)) * 40, rng.random((n, 2)) * 40
    way = np.rint(np.abs(goal[:, None, :] - origin[None, :, :]).sum(axis=2)).astype(np.int64)
    pause = start[None, :] - (start + length)[:, None]
    there = np.argwhere((pause >= way) & (pause <= PAUSE))
    cost = (pause + 2 * way)[there[:, 0], there[:, 1]]
    tasks = np.stack([start, start + length], axis=1)
    one = {"K": n, "time_limit": DUTY, "tasks": tasks, "arcs": np.column_stack([there, cost]).astype(np.int64)}
    return one | {"K": _crews_of_a_simple_rule(one)}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's csp files: the number of tasks and the longest duty; start and finish of each task; transitions
    ``i j cost``, tasks from 1, of which those to a task that starts too early are left out. The number of crews is not
    in the file; it is the fewest that the paper asks for, and up to four more."""
    numbers = Numbers(text)
    n, limit = numbers.count("the number of tasks", most=100_000), numbers.count("the time limit")
    tasks = [[reading.within(numbers, "a time") for _ in range(2)] for _ in range(n)]
    costs: dict[tuple[int, int], int] = {}
    while not numbers.done:
        i, j = numbers.integers(2, "a task of a transition")
        if not (1 <= i <= n and 1 <= j <= n):
            raise DataError(f"has a transition {i} {j}; tasks lie within 1 .. {n}")
        costs[i - 1, j - 1] = numbers.count("a cost")
    if not n or any(start >= finish for start, finish in tasks):
        raise DataError("has no tasks, or one that does not finish after it starts")
    arcs = [(i, j, cost) for (i, j), cost in sorted(costs.items()) if tasks[i][1] <= tasks[j][0]]
    one = {
        "time_limit": limit,
        "tasks": np.array(tasks, dtype=np.int64),
        "arcs": np.array(arcs, dtype=np.int64).reshape(-1, 3),
    }
    fewest = CREWS.get(n) or _crews_of_a_simple_rule(one)
    return [one | {"K": fewest + more} for more in range(5 if n in CREWS else 1)]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    n, crews = len(instance["tasks"]), instance["K"]
    found = program(n, crews, instance["time_limit"], instance["tasks"], instance["arcs"])
    rows = checks.sequence(found, "the crews", longest=crews)
    for c, row in enumerate(rows):
        checks.sequence(row, f"crew {c}", longest=n)
    return [checks.integers(row, f"crew {c}", low=0, high=n - 1) for c, row in enumerate(rows)]


def violations(instance: dict[str, Any], crews: list[list[int]]) -> Iterator[str]:
    """Tasks of no crew or of several, transitions that there are not, duties that last too long."""
    tasks, costs = instance["tasks"].tolist(), _costs(instance)
    of: dict[int, int] = {}
    for c, chain in enumerate(crews):
        for task in chain:
            if task in of:
                yield f"task {task} is done by crew {of[task]} and again by crew {c}"
            of[task] = c
        for i, j in pairwise(chain):
            if (i, j) not in costs:
                if tasks[j][0] < tasks[i][1]:
                    why = f"task {j} starts at {tasks[j][0]} before task {i} finishes at {tasks[i][1]}"
                else:
                    why = "that transition is not listed"
                yield f"crew {c} goes from task {i} to task {j}, but {why}"
        if chain and (duty := tasks[chain[-1]][1] - tasks[chain[0]][0]) > instance["time_limit"]:
            yield f"the duty of crew {c} lasts {duty}, longer than the limit {instance['time_limit']}"
    for task in range(len(tasks)):
        if task not in of:
            yield f"task {task} is done by no crew"


def score(instance: dict[str, Any], crews: list[list[int]]) -> float:
    """The cost of all transitions."""
    costs = _costs(instance)
    return float(sum(costs[pair] for chain in crews for pair in pairwise(chain)))


def worst(instance: dict[str, Any]) -> float:
    """Into each task the dearest transition that there is, and one more."""
    dearest = np.zeros(len(instance["tasks"]), dtype=np.int64)
    np.maximum.at(dearest, instance["arcs"][:, 1], instance["arcs"][:, 2])
    return float(dearest.sum()) + 1.0


def bound(instance: dict[str, Any]) -> float:
    """The cheapest cover by at most K chains whose duties may last for any time: an assignment of each task to the one
    before it, of which at most K can be a crew's start."""
    n, crews = len(instance["tasks"]), min(instance["K"], len(instance["tasks"]))
    never = worst(instance) * 2
    before = np.full((n + crews, n + crews), never)
    arcs = instance["arcs"]
    before[arcs[:, 0], arcs[:, 1]] = arcs[:, 2]
    before[n:, :] = 0.0  # a crew starts with the task, or does not start
    before[:, n:] = 0.0  # nothing follows the task
    rows, columns = linear_sum_assignment(before)
    return min(float(before[rows, columns].sum()), worst(instance))


def remark(instance: dict[str, Any], crews: list[list[int]]) -> str:
    tasks, costs = instance["tasks"].tolist(), _costs(instance)
    used = [chain for chain in crews if chain]
    duties = [tasks[chain[-1]][1] - tasks[chain[0]][0] for chain in used]
    steps = [(costs[pair], pair) for chain in used for pair in pairwise(chain)]
    dearest = ""
    if steps:
        most, (i, j) = max(steps)
        dearest = f" The dearest, from task {i} to {j}, costs {most}."
    return (
        f"{len(used)} of {instance['K']} crews do {len(tasks)} tasks with {len(steps)} transitions.{dearest} Duties "
        f"last up to {max(duties)} of {instance['time_limit']}, {sum(duties) / len(duties):.0f} in the mean."
    )


def draw(instance: dict[str, Any], crews: list[list[int]]) -> Drawing:
    """A row for each crew."""
    tasks = instance["tasks"].tolist()
    return schedule([[(*tasks[task], task) for task in chain] for chain in crews])


def _costs(instance: dict[str, Any]) -> dict[tuple[int, int], int]:
    return {(i, j): cost for i, j, cost in instance["arcs"].tolist()}


def _crews_of_a_simple_rule(instance: dict[str, Any]) -> int:
    """How many crews it takes if each task in turn goes to the crew whose transition to it is cheapest."""
    tasks, costs = instance["tasks"].tolist(), _costs(instance)
    crews: list[list[int]] = []  # first and last task
    for task in sorted(range(len(tasks)), key=lambda t: tasks[t]):
        fit = [
            (costs[last, task], c)
            for c, (first, last) in enumerate(crews)
            if (last, task) in costs and tasks[task][1] - tasks[first][0] <= instance["time_limit"]
        ]
        if fit:
            crews[min(fit)[1]][1] = task
        else:
            crews.append([task, task])
    return len(crews)
