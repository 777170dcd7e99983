import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit with a name that is defined nowhere."""
    return -(remaining - item)
