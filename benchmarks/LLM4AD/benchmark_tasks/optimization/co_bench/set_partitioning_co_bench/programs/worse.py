import numpy as np


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """Short columns first, so that every row gets a column of its own."""
    chosen, covered = [], set()
    for column in sorted(range(num_columns), key=lambda j: len(columns[j])):
        if columns[column] and covered.isdisjoint(columns[column]):
            chosen.append(column)
            covered.update(columns[column])
    return chosen
