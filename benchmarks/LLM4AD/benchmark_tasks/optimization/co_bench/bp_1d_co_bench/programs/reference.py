import numpy as np

LEVEL = 5

ROUNDS = {1: 0, 2: 0, 3: 0, 4: 40, 5: 1500}[LEVEL]


def solve(bin_capacity: int, num_items: int, items: np.ndarray) -> list[list[int]]:
    """Minimum bin slack (Fleszar and Hindi, New heuristics for one-dimensional bin-packing, Computers and Operations
    Research 29, 2002, after Gupta and Ho, 1999): bins are filled one after another, each with the largest item left and
    a set of the others that leaves least room. Then, again and again, some bins are emptied and their items packed anew
    in a random order of preference; the new bins are kept if there are fewer, or if full bins and empty room are more
    unequal. Level 1 fills bins with the largest items that fit, level 2 with the best single item or pair.
    """
    sizes = items.tolist()
    left = sorted(range(num_items), key=lambda item: -sizes[item])
    bins = filled(sizes, left, bin_capacity)
    least = -(-sum(sizes) // bin_capacity)
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS * 250 // max(num_items, 250)):
        if len(bins) == least:
            break
        room = np.array([bin_capacity - sum(sizes[item] for item in one) for one in bins])
        emptied = rng.random(len(bins)) < np.where(room > 0, 0.5, rng.uniform(0.02, 0.3))
        loose = [item for one, e in zip(bins, emptied.tolist(), strict=True) if e for item in one]
        noise = rng.lognormal(0.0, rng.choice([0.05, 0.3]), len(loose))
        loose = [loose[k] for k in np.argsort(-np.array([sizes[item] for item in loose]) * noise)]
        again = filled(sizes, loose, bin_capacity)
        if worth(sizes, again, bin_capacity) >= (-int(emptied.sum()), int((room[emptied] ** 2).sum())):
            bins = [one for one, e in zip(bins, emptied.tolist(), strict=True) if not e] + again
    return bins


def worth(sizes, bins, capacity):
    """Few bins, then unequal room: what is free in one bin is of more use than in several."""
    return -len(bins), sum((capacity - sum(sizes[item] for item in one)) ** 2 for one in bins)


def filled(sizes, left, capacity):
    """Bins of the items left, the first of which opens each bin."""
    bins = []
    while left:
        first, left = left[0], left[1:]
        choose = {1: largest, 2: pair}.get(LEVEL, fullest)
        inside = choose([sizes[item] for item in left], capacity - sizes[first])
        bins.append([first, *(left[place] for place in sorted(inside))])
        left = [item for place, item in enumerate(left) if place not in inside]
    return bins


def largest(sizes, room):
    """Places of the first sizes that fit, one after another."""
    taken = set()
    for place, size in enumerate(sizes):
        if size <= room:
            taken.add(place)
            room -= size
    return taken


def pair(sizes, room):
    """Places of the one or two sizes whose sum comes closest to room."""
    best, total = set(), 0
    for place, size in enumerate(sizes):
        rest = [(other, k) for k, other in enumerate(sizes[:place]) if size + other <= room]
        other, k = max(rest, default=(0, None))
        if total < size + other <= room:
            best, total = {place} if k is None else {place, k}, size + other
    return best


def fullest(sizes, room):
    """Places of some of the sizes whose sum comes closest to room, the first of them by preference."""
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
