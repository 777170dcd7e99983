import numpy as np


def solve(
    container: list[int],
    sizes: np.ndarray,
    vertical: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
) -> list[tuple[int, int, int, int, int, int, int]]:
    """One column of a box of each type, the longest below, on a pallet of height 5 that is not there; what the boxes bear
    is not looked at."""
    placements, z = [], 5
    for kind in np.argsort(-sizes[:, 0]).tolist():
        dx, dy, dz = (int(d) for d in sizes[kind])
        if z + dz <= container[2]:
            placements.append((kind, 0, 0, z, dx, dy, dz))
            z += dz
    return placements
