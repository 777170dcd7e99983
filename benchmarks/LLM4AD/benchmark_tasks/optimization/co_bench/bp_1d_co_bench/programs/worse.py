import numpy as np


def solve(bin_capacity: int, num_items: int, items: np.ndarray) -> list[list[int]]:
    """Next fit: each item, in the order given, goes into the bin opened last, or a new one."""
    bins, room = [], 0
    for item, size in enumerate(items.tolist()):
        if size > room:
            bins.append([])
            room = bin_capacity
        bins[-1].append(item)
        room -= size
    return bins
