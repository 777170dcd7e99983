import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit: all bins are looked at, unless one becomes full."""
    gaps = bins - item
    return np.where(gaps == 0, np.inf, -gaps)
