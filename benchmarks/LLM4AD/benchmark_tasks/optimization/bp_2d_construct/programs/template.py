import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """First fit: the next item in the order given, into the first free rectangle that it fits into."""
    width, height = remaining_items[0]
    for row, (_, _, _, across, up) in enumerate(free_rectangles):
        if width <= across and height <= up:
            return 0, row
    return 0, None
