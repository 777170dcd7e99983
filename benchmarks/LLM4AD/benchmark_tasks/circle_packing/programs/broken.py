import math

import numpy as np


def pack_circles(n: int) -> np.ndarray:
    """A grid whose circles are drawn a tenth too large, so that neighbours overlap and the border is crossed."""
    k = math.ceil(math.sqrt(n))
    step = 1.0 / k
    rows = [((i % k + 0.5) * step, (i // k + 0.5) * step, 0.55 * step) for i in range(n)]
    return np.array(rows)
