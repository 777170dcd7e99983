import numpy as np


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """A covering: columns may share rows, which a partition forbids."""
    chosen, covered = [], set()
    for column in sorted(range(num_columns), key=lambda j: costs[j] / max(1, len(columns[j]))):
        if not covered.issuperset(columns[column]):
            chosen.append(column)
            covered.update(columns[column])
    return chosen
