import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit: the bin that has least room left afterwards."""
    return -(bins - item)
