"""Set partitioning: adds up the costs of columns that cover every row exactly once; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import location, reading


def instance(rng: np.random.Generator, *, n_rows: int, n_columns: int) -> dict[str, Any]:
    """Like the pairings of airline crews: a dear column for each row alone; others come from random partitions into
    sets of 2 to 6 rows that lie close to one another."""
    m = int(rng.integers(max(2, n_rows // 2), n_rows + 1))
    n = max(m + 1, m * n_columns // n_rows)
    weights = rng.integers(20, 61, m)
    found = {(row,): int(3 * (50 + weights[row])) for row in range(m)}
    for _ in range(20 * n):
        if len(found) == n:
            break
        order = np.argsort(np.arange(m) + rng.uniform(0, 20, m), kind="stable").tolist()
        while order and len(found) < n:
            size = int(rng.integers(2, 7))
            rows = tuple(sorted(order[:size]))
            found.setdefault(rows, int((50 + weights[list(rows)].sum()) * rng.uniform(0.8, 1.6)))
            order = order[size:]
    ordered = sorted(found)
    shuffled = [ordered[i] for i in rng.permutation(len(ordered))]
    return {"m": m, "costs": np.array([found[rows] for rows in shuffled]), "columns": [list(r) for r in shuffled]}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's spp files: the numbers of rows and columns; for each column its cost, how many rows it covers, and
    which, from 1."""
    numbers = Numbers(text)
    m, n = reading.some(numbers, "the number of rows", most=100_000), reading.some(numbers, "the number of columns")
    costs: list[float] = []
    columns: list[list[int]] = []
    for column in range(n):
        costs.append(numbers.real(f"the cost of column {column + 1}"))
        size = numbers.count(f"the number of rows of column {column + 1}", most=m)
        columns.append(location.members(numbers.integers(size, "a row"), m, f"column {column + 1}"))
    numbers.end()
    if bare := np.flatnonzero(location.coverage(columns, list(range(n)), m) == 0).tolist():
        raise DataError(f"no column covers row {bare[0] + 1}")
    return [{"m": m, "costs": np.array(costs), "columns": columns}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """Numbers of the chosen columns."""
    columns = instance["columns"]
    given = program(instance["m"], len(columns), instance["costs"], columns)
    return location.subset(given, "the columns", len(columns))


def violations(instance: dict[str, Any], chosen: list[int]) -> Iterator[str]:
    """Every row that is not covered exactly once."""
    times = location.coverage(instance["columns"], chosen, instance["m"])
    by: dict[int, list[int]] = {}
    for column in chosen:
        for row in instance["columns"][column]:
            by.setdefault(row, []).append(column)
    for row in np.flatnonzero(times != 1).tolist():
        if times[row] == 0:
            yield f"row {row} is covered by none of the {len(chosen)} chosen columns"
        else:
            yield f"row {row} is covered {times[row]} times, by columns {', '.join(map(str, by[row][:4]))}"


def score(instance: dict[str, Any], chosen: list[int]) -> float:
    return float(instance["costs"][chosen].sum())


def worst(instance: dict[str, Any]) -> float:
    """For each row the most that a column takes for each of its rows; columns without rows, too."""
    most, free = np.full(instance["m"], -np.inf), 0.0
    for cost, rows in zip(instance["costs"].tolist(), instance["columns"], strict=True):
        if rows:
            most[rows] = np.maximum(most[rows], cost / len(rows))
        else:
            free += max(0.0, cost)
    return float(most.sum()) * (1 + 1e-9) + free


def bound(instance: dict[str, Any]) -> float:
    """Of the linear relaxation; rounded up where costs are whole."""
    costs = instance["costs"]
    found = location.covering_bound(costs, instance["columns"], instance["m"], exact=True)
    return location.whole(found) if (costs == np.rint(costs)).all() else found


def remark(instance: dict[str, Any], chosen: list[int]) -> str:
    costs, columns = instance["costs"], instance["columns"]
    sizes = [len(columns[j]) for j in chosen]
    dear = max(chosen, key=lambda j: (costs[j] / max(1, len(columns[j])), j))
    return (
        f"{len(chosen)} columns of {min(sizes)} to {max(sizes)} rows, {sizes.count(1)} of them for a single row. "
        f"Column {dear} is the dearest for each of its {len(columns[dear])} rows, costs {costs[dear]:.10g} in all; on "
        f"average a row costs {score(instance, chosen) / max(1, instance['m']):.4g}."
    )
