import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Worst fit: the open bin with most room, and an empty one only if no other fits."""
    scores = bins - item
    scores[-1] = -1.0
    return scores
