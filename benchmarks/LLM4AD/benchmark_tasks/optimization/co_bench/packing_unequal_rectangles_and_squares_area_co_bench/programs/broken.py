import numpy as np


def solve(container_radius: float, sizes: np.ndarray) -> list[tuple[int, float, float, int]]:
    """The largest rectangles as far as their area is less than the container's, one over the other in the middle."""
    packing, left = [], np.pi * container_radius**2
    for item in np.argsort(-sizes[:, 0] * sizes[:, 1]).tolist():
        left -= sizes[item][0] * sizes[item][1]
        if left > 0:
            packing.append((item, 0.0, 0.0, 0))
    return packing
