"""Set covering: adds up the costs of columns that cover every row; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import location, reading


def instance(rng: np.random.Generator, *, n_rows: int, n_columns: int) -> dict[str, Any]:
    """As OR-Library's scp files: a matrix of random density, at least two columns to a row and one row to a column."""
    m = int(rng.integers(max(2, n_rows // 2), n_rows + 1))
    n = max(2, m * n_columns // n_rows)
    covers = rng.random((m, n)) < rng.uniform(0.02, 0.05)
    for row in np.flatnonzero(covers.sum(axis=1) < 2):
        covers[row, rng.choice(n, 2, replace=False)] = True
    for column in np.flatnonzero(~covers.any(axis=0)):
        covers[rng.integers(m), column] = True
    return {"costs": rng.integers(1, 101, n), "columns": [np.flatnonzero(c).tolist() for c in covers.T], "m": m}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's scp files: m and n, the costs of the columns; for each row how many columns cover it, and which,
    from 1."""
    numbers = Numbers(text)
    m, n = reading.some(numbers, "the number of rows", most=100_000), reading.some(numbers, "the number of columns")
    costs = np.array(numbers.reals(n, "a cost"))
    columns: list[list[int]] = [[] for _ in range(n)]
    for row in range(m):
        size = numbers.count(f"the number of columns of row {row + 1}", most=n)
        if not size:
            raise DataError(f"no column covers row {row + 1}")
        for column in location.members(numbers.integers(size, "a column"), n, f"row {row + 1}"):
            columns[column].append(row)
    numbers.end()
    return [{"costs": costs, "columns": columns, "m": m}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """Numbers of the chosen columns."""
    m, n = instance["m"], len(instance["columns"])
    row_cover: list[list[int]] = [[] for _ in range(m)]
    for column, rows in enumerate(instance["columns"]):
        for row in rows:
            row_cover[row].append(column)
    return location.subset(program(m, n, instance["costs"], row_cover), "the columns", n)


def violations(instance: dict[str, Any], chosen: list[int]) -> Iterator[str]:
    """Every row without a column."""
    for row in np.flatnonzero(location.coverage(instance["columns"], chosen, instance["m"]) == 0).tolist():
        yield f"row {row} is covered by none of the {len(chosen)} chosen columns"


def score(instance: dict[str, Any], chosen: list[int]) -> float:
    return float(instance["costs"][chosen].sum())


def worst(instance: dict[str, Any]) -> float:
    """All columns."""
    return float(instance["costs"].sum())


def bound(instance: dict[str, Any]) -> float:
    """Of the linear relaxation; rounded up where costs are whole."""
    costs = instance["costs"]
    found = location.covering_bound(costs, instance["columns"], instance["m"])
    return location.whole(found) if (costs == np.rint(costs)).all() else found


def remark(instance: dict[str, Any], chosen: list[int]) -> str:
    costs, columns = instance["costs"], instance["columns"]
    times = location.coverage(columns, chosen, instance["m"])
    spare = [j for j in chosen if (times[columns[j]] > 1).all()]
    alone = {j: max(1, int((times[columns[j]] == 1).sum())) for j in chosen}
    dear = max(chosen, key=lambda j: (costs[j] / alone[j], j))
    return (
        f"{len(chosen)} columns, {len(spare)} of which could be left out on their own; {int((times > 1).sum())} of "
        f"{len(times)} rows are covered more than once. Column {dear} costs {costs[dear]:.10g} and is alone in "
        f"covering {int((times[columns[dear]] == 1).sum())} rows."
    )
