import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_matrix


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """Greedy by the reduced costs of the linear relaxation, as in dual heuristics (Fisher and Kedia, 1990), repeated
    from the best partition less the columns of some neighbouring rows."""
    prices = duals(num_rows, costs, columns)
    reduced = np.array([cost - prices[rows].sum() for cost, rows in zip(costs.tolist(), columns, strict=True)])
    masks = [sum(1 << row for row in rows) for rows in columns]
    full, spread, rng = (1 << num_rows) - 1, max(1.0, float(np.mean(costs))), np.random.default_rng(1)
    best = current = completed([], masks, np.argsort(reduced, kind="stable"))
    for _ in range(800):
        start, size = int(rng.integers(num_rows)), int(rng.integers(4, 15))
        out = sum(1 << (row % num_rows) for row in range(start, start + size))
        kept = [j for j in current if not masks[j] & out]
        noise = rng.exponential(0.3 * spread * rng.random(), num_columns)
        moved = completed(kept, masks, np.argsort(reduced + noise, kind="stable"))
        if value(moved, masks, costs, full) <= value(current, masks, costs, full):
            current = moved
        if value(moved, masks, costs, full) < value(best, masks, costs, full):
            best = moved
    return [int(j) for j in best]


def duals(num_rows, costs, columns):
    rows = [row for column in columns for row in column]
    ends = np.cumsum([0] + [len(column) for column in columns])
    matrix = csc_matrix((np.ones(len(rows)), rows, ends), shape=(num_rows, len(columns)))
    found = linprog(costs, A_eq=matrix, b_eq=np.ones(num_rows), method="highs")
    return found.eqlin.marginals if found.status == 0 else np.zeros(num_rows)


def completed(kept, masks, order):
    chosen, covered = list(kept), 0
    for j in kept:
        covered |= masks[j]
    for j in order.tolist():
        if masks[j] and not masks[j] & covered:
            chosen.append(j)
            covered |= masks[j]
    return chosen


def value(chosen, masks, costs, full):
    """Cost; a partition that lacks rows is worse than any other."""
    covered = 0
    for j in chosen:
        covered |= masks[j]
    return (full ^ covered).bit_count() * 1e12 + costs[chosen].sum()
