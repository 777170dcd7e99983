import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit with one priority for the whole block, that of its best bin."""
    return float((item - bins).max())
