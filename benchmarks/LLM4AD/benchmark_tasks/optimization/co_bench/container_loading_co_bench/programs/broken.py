import numpy as np


def solve(
    container: list[int], sizes: np.ndarray, vertical: np.ndarray, counts: np.ndarray
) -> list[tuple[int, int, int, int, int, int, int]]:
    """One row of all boxes, on along the container as if it had no end."""
    placements, x = [], 0
    for kind, (dx, dy, dz) in enumerate(sizes.tolist()):
        for _ in range(int(counts[kind])):
            placements.append((kind, x, 0, 0, dx, dy, dz))
            x += dx
    return placements
