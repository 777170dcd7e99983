import random

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 2, 4: 8, 5: 40}[LEVEL]
"""Of emptying and filling some bins, for each item."""
FIRST, PLAN = [], []


def determine_next_assignment(remaining_items: np.ndarray, remaining_capacities: np.ndarray) -> tuple[int, int | None]:
    """The largest item goes into a new bin, which shows the capacity, and the others follow a plan: bins one after the
    other, each as full as can be with the largest item that is left (Gupta, Ho, 1999); then again and again some bins
    are emptied and filled anew. Level 1 is best fit decreasing (Johnson et al., 1974)."""
    largest = int(remaining_items.max())
    if len(remaining_capacities) == 0:
        FIRST[:] = [largest]
        return largest, None
    if LEVEL == 1:
        fits = remaining_capacities >= largest
        return largest, int(np.where(fits, remaining_capacities, np.inf).argmin()) if fits.any() else None
    if not PLAN:
        PLAN[:] = planned([*FIRST, *remaining_items.tolist()], FIRST[0] + int(remaining_capacities[0]))
    return PLAN.pop(0)


def planned(items, capacity):
    """Items and bins of all steps but the first, which put the largest item into a bin."""
    bins = searched(packed(sorted(items, reverse=True), capacity), capacity, ROUNDS * len(items))
    largest = max(items)
    bins.sort(key=lambda one: largest not in one)
    bins[0].remove(largest)
    return [(size, None if place == 0 < number else number)
            for number, one in enumerate(bins) for place, size in enumerate(one)]  # fmt: skip


def packed(items, capacity):
    """Bins one after the other, each as full as can be with the first item that is left."""
    left, bins = list(items), []
    while left:
        first = left.pop(0)
        used = filled(first, left, capacity)
        bins.append([first, *(left[place] for place in used)])
        for place in used:
            left.pop(place)
    return bins


def filled(first, others, capacity):
    """Places of the items that fill a bin best beside one, the last first: sums in reach are the bits of a number."""
    reached, steps = 1 << first, []
    within = (2 << capacity) - 1
    for size in others:
        steps.append(reached)
        reached |= reached << size & within
        if reached >> capacity:
            break
    level, used = reached.bit_length() - 1, []
    for place in reversed(range(len(steps))):
        if not steps[place] >> level & 1:
            used.append(place)
            level -= others[place]
    return used


def searched(bins, capacity, rounds):
    """A few bins are filled anew, in an order that is random every other time: kept if the squares of what is in them
    add up to no less, so that what is free gathers in few bins."""
    rng = random.Random(1)
    for turn in range(rounds):
        some = rng.sample(range(len(bins)), min(len(bins), rng.randint(3, 6)))
        items = [size for k in some for size in bins[k]]
        rng.shuffle(items)
        if turn % 2:
            items.sort(reverse=True)
        made = packed(items, capacity)
        if sum(sum(one) ** 2 for one in made) >= sum(sum(bins[k]) ** 2 for k in some):
            bins = [one for k, one in enumerate(bins) if k not in some] + made
    return bins
