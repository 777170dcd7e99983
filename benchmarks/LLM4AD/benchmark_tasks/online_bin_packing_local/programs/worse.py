import numpy as np

ROOM = [0.0]
"""What is left in the bin that took the last item."""


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Next fit: the bin that took the last item if this one fits, too, and an empty one otherwise."""
    scores = np.zeros(len(bins))
    last = len(bins) - 2
    chosen = last if ROOM[0] >= item and last >= 0 else len(bins) - 1
    ROOM[0] = bins[chosen] - item
    scores[chosen] = 1.0
    return scores
