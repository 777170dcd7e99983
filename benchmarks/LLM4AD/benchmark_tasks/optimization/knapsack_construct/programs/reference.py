import numpy as np

LEVEL = 5
EXACT = (0, 0, 0, 30, 60, 10**9)[LEVEL]
"""Room left from which on the packing is a best one; before, an item of the best value by weight is taken."""


def select_next_item(
    remaining_capacity: int, remaining_items: list[tuple[int, int, int]]
) -> tuple[int, int, int] | None:
    """An item of a best packing of what is left, by dynamic programming over the capacity (Bellman, 1957)."""
    if remaining_capacity > EXACT:
        fitting = [item for item in remaining_items if item[0] <= remaining_capacity]
        return max(fitting, key=lambda item: item[1] / item[0] ** (0.5 if LEVEL == 1 else 1), default=None)
    best = np.zeros((len(remaining_items) + 1, remaining_capacity + 1), dtype=np.int64)
    for number, (weight, value, _) in enumerate(remaining_items, 1):
        best[number] = best[number - 1]
        if weight > remaining_capacity:
            continue
        with_it = best[number - 1, : remaining_capacity + 1 - weight] + value
        best[number, weight:] = np.maximum(best[number, weight:], with_it)
    for number in range(len(remaining_items), 0, -1):
        if best[number, remaining_capacity] > best[number - 1, remaining_capacity]:
            return remaining_items[number - 1]
    return None
