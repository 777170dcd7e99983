import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """The first free rectangle whose area suffices, whether the sides do or not."""
    area = remaining_items[0].prod()
    for row, (_, _, _, across, up) in enumerate(free_rectangles):
        if area <= across * up:
            return 0, row
    return 0, None
