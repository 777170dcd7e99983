import numpy as np


def solve(
    container: list[int],
    sizes: np.ndarray,
    vertical: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
) -> list[tuple[int, int, int, int, int, int, int]]:
    """One row of boxes of the first type along the container, nothing on top of anything."""
    axis = int(np.flatnonzero(vertical[0])[-1])
    dx, dy = (int(d) for d in np.delete(sizes[0], axis))
    number = min(int(counts[0]), container[0] // dx)
    return [(0, i * dx, 0, 0, dx, dy, int(sizes[0][axis])) for i in range(number)]
