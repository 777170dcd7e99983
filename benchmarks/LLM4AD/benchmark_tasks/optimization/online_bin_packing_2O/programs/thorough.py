import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """As the reference, but only a bin that becomes full is taken at once; otherwise all are looked at."""
    gaps = bins - item
    awkward = (gaps > 4) & (gaps < 25)
    return np.where(gaps == 0, np.inf, -gaps - 1000.0 * awkward)
