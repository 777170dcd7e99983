import numpy as np


def solve(data: np.ndarray, n_groups: int) -> list[int]:
    """Puts those with about as many attributes together."""
    groups = np.zeros(len(data), dtype=int)
    groups[np.argsort(data.sum(axis=1), kind="stable")] = np.arange(len(data)) * n_groups // len(data)
    return groups.tolist()
