import numpy as np


def solve(
    container: list[int],
    sizes: np.ndarray,
    vertical: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Columns of equal boxes, as high as the lowest box can bear, side by side in rows across the container."""
    length, width, height = container
    placements = []
    x = y = depth = 0
    for kind in range(len(sizes)):
        axis = int(np.flatnonzero(vertical[kind])[-1])
        dz = int(sizes[kind][axis])
        dx, dy = (int(d) for d in np.delete(sizes[kind], axis))
        borne = int(strengths[kind][axis] * dx * dy / weights[kind])
        left = int(counts[kind])
        while left:
            if y + dy > width:
                x, y, depth = x + depth, 0, 0
            if x + dx > length or y + dy > width or dz > height:
                break
            high = min(left, height // dz, borne + 1)
            placements += [(kind, x, y, level * dz, dx, dy, dz) for level in range(high)]
            left -= high
            y, depth = y + dy, max(depth, dx)
    return placements
