import numpy as np

LEVEL = 5
WIDE = (0, 0, 12, 15, 18)

OPEN = {}
"""How many open bins have each amount of room left."""


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Sum of squares (Csirik, Johnson, Kenyon, Orlin, Shor, Weber, On the sum-of-squares algorithm for bin packing,
    Journal of the ACM 53, 2006): with N(g) open bins that have room g left, put the item where the sum of N(g)^2 over
    the bins that are neither empty nor full becomes least. Such a packing keeps all levels about equally filled."""
    if LEVEL < 5:
        gaps = bins - item
        return -gaps - 1000.0 * ((gaps > 4) & (gaps < WIDE[LEVEL]))  # best fit that shuns gaps that few items will fill
    scores = np.array([-change(room, room - item, bins[-1]) for room in bins])
    room = bins[int(scores.argmax())]
    if room < bins[-1]:
        OPEN[room] -= 1
    if room > item:
        OPEN[room - item] = OPEN.get(room - item, 0) + 1
    return scores


def change(before, after, capacity):
    """Of the sum of squares, if a bin with this room has that much room afterwards."""
    total = 0
    if before < capacity:
        total += 1 - 2 * OPEN[before]
    if after > 0:
        total += 1 + 2 * OPEN.get(after, 0)
    return total
