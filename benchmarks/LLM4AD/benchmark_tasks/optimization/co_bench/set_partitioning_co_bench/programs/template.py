import numpy as np


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """Columns by cost for each of their rows, the cheapest first: taken if none of their rows is covered yet."""
    chosen, covered = [], set()
    for column in sorted(range(num_columns), key=lambda j: costs[j] / max(1, len(columns[j]))):
        if columns[column] and covered.isdisjoint(columns[column]):
            chosen.append(column)
            covered.update(columns[column])
    return chosen
