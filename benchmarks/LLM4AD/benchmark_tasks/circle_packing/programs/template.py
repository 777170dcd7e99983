import math

import numpy as np


def pack_circles(n: int) -> np.ndarray:
    """A square grid of equal circles: valid, and far from the best."""
    k = math.ceil(math.sqrt(n))
    radius = 0.5 / k
    rows = [((2 * (i % k) + 1) * radius, (2 * (i // k) + 1) * radius, radius) for i in range(n)]
    return np.array(rows)
