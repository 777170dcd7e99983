import numpy as np


def solve(bin_capacity: int, num_items: int, items: np.ndarray) -> list[list[int]]:
    """As many bins as the sizes need together, and the items dealt out to them in turn, largest first."""
    count = -(-int(items.sum()) // bin_capacity)
    order = np.argsort(-items, kind="stable")
    return [order[number::count].tolist() for number in range(count)]
