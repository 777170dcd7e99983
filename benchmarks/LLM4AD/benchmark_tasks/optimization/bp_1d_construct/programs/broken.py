import numpy as np


def determine_next_assignment(
    remaining_items: np.ndarray, remaining_capacities: np.ndarray
) -> tuple[int, int | None]:
    """The largest item into the fullest bin, whether it fits there or not."""
    item = int(remaining_items.max())
    if len(remaining_capacities) == 0:
        return item, None
    return item, int(remaining_capacities.argmin())
