import numpy as np


def solve(
    container: list[int], sizes: np.ndarray, vertical: np.ndarray, counts: np.ndarray
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Rows, layers and walls: boxes of one type after the other stand side by side across the container; a full row
    opens the next one above it, a full wall the next one behind it."""
    length, width, height = container
    placements = []
    x = y = z = depth = top = 0
    for kind in range(len(sizes)):
        axis = int(np.flatnonzero(vertical[kind])[-1])
        dz = int(sizes[kind][axis])
        dx, dy = (int(d) for d in np.delete(sizes[kind], axis))
        for _ in range(int(counts[kind])):
            if y + dy > width:
                y, z, top = 0, top, top
            if z + dz > height:
                x, y, z, depth, top = x + depth, 0, 0, 0, 0
            if x + dx > length or y + dy > width or z + dz > height:
                break
            placements.append((kind, x, y, z, dx, dy, dz))
            y, depth, top = y + dy, max(depth, dx), max(top, z + dz)
    return placements
