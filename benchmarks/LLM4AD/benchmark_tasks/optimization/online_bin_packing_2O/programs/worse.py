import numpy as np

CAPACITY = [0.0]
"""The first bin that is ever on offer is an empty one."""


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Worst fit: the open bin with most room, and an empty one only if no other fits; all bins are looked at."""
    CAPACITY[0] = max(CAPACITY[0], bins[-1])
    return np.where(bins == CAPACITY[0], -1.0, bins - item)
