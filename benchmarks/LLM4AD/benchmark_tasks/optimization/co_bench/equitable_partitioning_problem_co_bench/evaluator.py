"""Equitable partitioning: adds up how unevenly attributes are spread over groups; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError

GROUPS = 8
"""In published data, which do not say."""


def instance(rng: np.random.Generator, *, n_items: int, n_attributes: int, n_groups: int) -> dict[str, Any]:
    """Attributes by chance, or so that groups without any imbalance exist."""
    m = int(rng.integers((n_attributes + 1) // 2, n_attributes + 1))
    shares = rng.uniform(0.1, 0.9, size=m)
    n = int(rng.integers((n_items + 1) // 2, n_items + 1))
    if rng.random() < 0.5:
        return {"data": (rng.random((max(n, n_groups), m)) < shares).astype(np.int64), "n_groups": n_groups}
    size = max(1, n // n_groups)
    counts = np.maximum(1, np.round(shares * size)).astype(int)
    data = np.zeros((n_groups, size, m), dtype=np.int64)
    for group in range(n_groups):
        for j in range(m):
            data[group, rng.permutation(size)[: counts[j]], j] = 1
    return {"data": rng.permutation(data.reshape(-1, m)), "n_groups": n_groups}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's epp files: a line of 0s and 1s for each individual, apart or run together; no header."""
    rows: list[list[int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        digits = list(words[0]) if len(words) == 1 else words
        if not digits:
            continue
        if any(digit not in ("0", "1") for digit in digits):
            raise DataError(f"line {number}: attributes must be 0 or 1, not {line.strip()[:40]!r}")
        if rows and len(digits) != len(rows[0]):
            raise DataError(f"line {number}: has {len(digits)} attributes where the first has {len(rows[0])}")
        rows.append([int(digit) for digit in digits])
    if len(rows) < GROUPS:
        raise DataError(f"has {len(rows)} individuals; {GROUPS} groups need one each")
    return [{"data": np.array(rows, dtype=np.int64), "n_groups": GROUPS}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    data, k = instance["data"], instance["n_groups"]
    return checks.integers(program(data, k), "the groups", length=len(data), low=0, high=k - 1)


def violations(instance: dict[str, Any], groups: list[int]) -> Iterator[str]:
    """Every group without a member."""
    for group in sorted(set(range(instance["n_groups"])) - set(groups)):
        yield f"group {group} has no member"


def score(instance: dict[str, Any], groups: list[int]) -> float:
    """Differences from the mean count, over attributes and groups. Summed as whole numbers, then divided once."""
    return int(np.abs(deviations(instance, groups)).sum()) / instance["n_groups"]


def worst(instance: dict[str, Any]) -> float:
    """All who have an attribute in one group."""
    k = instance["n_groups"]
    return 2 * int(instance["data"].sum()) * (k - 1) / k


def bound(instance: dict[str, Any]) -> float:
    """Counts are whole: of each attribute, some groups have the mean rounded up, the others rounded down."""
    k = instance["n_groups"]
    over = instance["data"].sum(axis=0) % k
    return 2 * int((over * (k - over)).sum()) / k


def remark(instance: dict[str, Any], groups: list[int]) -> str:
    k = instance["n_groups"]
    away = np.abs(deviations(instance, groups))
    sizes = np.bincount(groups, minlength=k)
    attribute, group = int(away.sum(axis=0).argmax()), int(away.sum(axis=1).argmax())
    return (
        f"Most uneven are attribute {attribute} (imbalance {away[:, attribute].sum() / k:g}) and group {group} "
        f"({away[group].sum() / k:g}); groups have {sizes.min()} to {sizes.max()} members."
    )


def deviations(instance: dict[str, Any], groups: list[int]) -> NDArray[np.int64]:
    """Count less mean of each group and attribute, times the number of groups; shape (groups, attributes)."""
    data, k = instance["data"], instance["n_groups"]
    counts = np.zeros((k, data.shape[1]), dtype=np.int64)
    np.add.at(counts, np.array(groups), data)
    return np.asarray(k * counts - data.sum(axis=0))
