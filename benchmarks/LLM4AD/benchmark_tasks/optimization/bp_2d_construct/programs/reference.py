import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """Largest area first, into the free rectangle where the shorter of the two sides left over is shortest: maximal
    rectangles, best short side fit (Jylanki, A thousand ways to pack the bin, 2010)."""
    item = int(remaining_items.prod(axis=1).argmax())
    over = free_rectangles[:, 3:] - remaining_items[item]
    fits = (over >= 0).all(axis=1)
    if not fits.any():
        return item, None
    short = np.where(fits, over.min(axis=1) + over.max(axis=1) / 1e6, np.inf)
    return item, int(short.argmin())
