import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, remaining_capacities: np.ndarray) -> tuple[int, int | None]:
    """Best fit decreasing (Johnson, Demers, Ullman, Garey, Graham, Worst-case performance bounds for simple
    one-dimensional packing algorithms, 1974): the largest item, into the fullest bin that it fits into."""
    item = int(remaining_items.max())
    fits = remaining_capacities >= item
    if not fits.any():
        return item, None
    return item, int(np.where(fits, remaining_capacities, np.inf).argmin())
