import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, remaining_capacities: np.ndarray) -> tuple[int, int | None]:
    """Next fit: the next item in the order given, into the bin opened last or a new one."""
    item = int(remaining_items[0])
    if len(remaining_capacities) and remaining_capacities[-1] >= item:
        return item, len(remaining_capacities) - 1
    return item, None
