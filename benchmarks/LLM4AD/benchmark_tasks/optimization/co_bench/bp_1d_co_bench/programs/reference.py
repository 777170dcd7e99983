import numpy as np


def solve(bin_capacity: int, num_items: int, items: np.ndarray) -> list[list[int]]:
    """Minimum bin slack with a fixed item (Fleszar and Hindi, New heuristics for one-dimensional bin-packing, Computers
    and Operations Research 29, 2002, after Gupta and Ho, 1999): bins are filled one after another, each with the
    largest item left and a set of the others that leaves least room. Of the best sets it takes larger items first."""
    left = sorted(range(num_items), key=lambda item: -items[item])
    bins = []
    while left:
        first = left.pop(0)
        inside = filled([int(items[item]) for item in left], int(bin_capacity - items[first]))
        bins.append([first, *(left[place] for place in inside)])
        left = [item for place, item in enumerate(left) if place not in inside]
    return bins


def filled(sizes, room):
    """Places of some of the sizes, which fall, whose sum comes closest to room."""
    sums = [1]  # bit b of sums[k]: some of sizes[k:] sum to b
    mask = (1 << room + 1) - 1
    for size in reversed(sizes):
        sums.append((sums[-1] | sums[-1] << size) & mask)
    sums.reverse()
    due = sums[0].bit_length() - 1
    taken = set()
    for place, size in enumerate(sizes):
        if size <= due and sums[place + 1] >> due - size & 1:
            taken.add(place)
            due -= size
    return taken
