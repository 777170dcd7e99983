import numpy as np


def solve(m: int, n: int, costs: np.ndarray, row_cover: list[list[int]]) -> list[int]:
    """Row by row: one that is not covered yet gets the cheapest of its columns."""
    chosen = set()
    for columns in row_cover:
        if not chosen.intersection(columns):
            chosen.add(min(columns, key=lambda column: costs[column]))
    return sorted(chosen)
