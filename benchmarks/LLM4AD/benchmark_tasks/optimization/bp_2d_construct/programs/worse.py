import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """Next fit: the next item in the order given, into the bin opened last or a new one."""
    for row, (number, _, _, across, up) in enumerate(free_rectangles):
        if number == free_rectangles[-1, 0] and (remaining_items[0] <= (across, up)).all():
            return 0, row
    return 0, None
