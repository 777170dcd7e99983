import numpy as np


def solve(bin_capacity: int, num_items: int, items: np.ndarray) -> list[list[int]]:
    """First fit: each item, in the order given, goes into the first bin that has room for it."""
    bins, room = [], []
    for item, size in enumerate(items.tolist()):
        place = next((number for number, left in enumerate(room) if left >= size), None)
        if place is None:
            place = len(bins)
            bins.append([])
            room.append(bin_capacity)
        bins[place].append(item)
        room[place] -= size
    return bins
