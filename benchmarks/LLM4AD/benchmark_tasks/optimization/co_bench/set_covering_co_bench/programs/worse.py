import numpy as np


def solve(m: int, n: int, costs: np.ndarray, row_cover: list[list[int]]) -> list[int]:
    """Row by row: one that is not covered yet gets the first of its columns, whatever it costs."""
    chosen = set()
    for columns in row_cover:
        if not chosen.intersection(columns):
            chosen.add(columns[0])
    return sorted(chosen)
