import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, remaining_capacities: np.ndarray) -> tuple[int, int | None]:
    """First fit: the next item in the order given, into the first bin that it fits into."""
    item = int(remaining_items[0])
    for number, room in enumerate(remaining_capacities):
        if room >= item:
            return item, number
    return item, None
