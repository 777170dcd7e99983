import random

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 4000, 5: 10000}[LEVEL]
FIRST, PLAN = [], []


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """The largest item goes into a new bin, which shows the sides of a bin, and the others follow a plan: maximal
    rectangles, best short side fit (Jylanki, A thousand ways to pack the bin, 2010), by the best of some orders; then
    again and again some bins are emptied and filled anew."""
    if len(free_rectangles) == 0:
        item = int(remaining_items.prod(axis=1).argmax())
        FIRST[:] = [tuple(remaining_items[item].tolist())]
        return item, None
    if not PLAN:
        sides = (free_rectangles[:, 1:3] + free_rectangles[:, 3:]).max(axis=0).tolist()
        PLAN[:] = planned([*FIRST, *map(tuple, remaining_items.tolist())], sides)
    item, number, x, y = PLAN.pop(0)
    row = int((remaining_items == item).all(axis=1).argmax())
    if (x, y) == (0, 0):
        return row, None
    fits = (free_rectangles[:, :3] == (number, x, y)).all(axis=1) & (free_rectangles[:, 3:] >= item).all(axis=1)
    return row, int(fits.argmax())


def planned(items, sides):
    """Item, bin and corner of all steps but the first, which put the first item into the corner of the first bin."""
    keys = [lambda i: -i[0] * i[1], lambda i: -max(i), lambda i: -i[0] - i[1], lambda i: -i[0], lambda i: -i[1]]
    tried = {1: keys[3:4], 2: keys[:1]}.get(LEVEL, keys)
    found = [packed(sorted(items, key=key), items[0], sides) for key in tried]
    bins = searched(max(found, key=worth), items[0], sides)
    bins.sort(key=lambda one: one[0][0] != items[0])
    return [(item, number, x, y) for number, one in enumerate(bins) for item, x, y in one][1:]


def worth(bins):
    return sum(sum(w * h for (w, h), _, _ in one) ** 2 for one in bins)


def searched(bins, first, sides):
    """A few bins are filled anew, in an order by area with noise: kept if the squares of what is in them add up to no
    less, so that what is free gathers in few bins."""
    rng = random.Random(1)
    for _ in range(ROUNDS * sum(map(len, bins)) // 200):
        some = rng.sample(range(len(bins)), min(len(bins), rng.randint(2, 3)))
        items = [item for k in some for item, _, _ in bins[k]]
        noise = rng.choice((0.1, 0.3, 1.0))
        items.sort(key=lambda i: -i[0] * i[1] * rng.uniform(1 - noise, 1 + noise))
        made = packed(items, first, sides)
        if worth(made) >= worth([bins[k] for k in some]):
            bins = [one for k, one in enumerate(bins) if k not in some] + made
    return bins


def packed(items, first, sides):
    """Each item, in this order but for the first, to the free rectangle where the shorter side left is shortest."""
    bins, free = [], []
    for item in sorted(items, key=lambda i: i != first):
        width, height = item
        best, where = (float("inf"), 0), None
        for number, places in enumerate(free):
            for x, y, across, up in places:
                over, above = across - width, up - height
                if over >= 0 and above >= 0:
                    short = (over, above) if over < above else (above, over)
                    if short < best:
                        best, where = short, (number, x, y)
        if where is None:
            where = len(bins), 0, 0
            bins.append([])
            free.append([(0, 0, *sides)])
        number, x, y = where
        bins[number].append((item, x, y))
        free[number] = without(free[number], x, y, width, height)
    return bins


def without(free, x, y, width, height):
    """The maximal free rectangles once one of them is filled in part."""
    kept, parts = [], set()
    right, top = x + width, y + height
    for place in free:
        left, low, across, up = place
        end, high = left + across, low + up
        if x >= end or right <= left or y >= high or top <= low:
            kept.append(place)
            continue
        if x > left:
            parts.add((left, low, x - left, up))
        if right < end:
            parts.add((right, low, end - right, up))
        if y > low:
            parts.add((left, low, across, y - low))
        if top < high:
            parts.add((left, top, across, high - top))
    every = [*kept, *parts]
    return sorted(kept + [p for p in parts if not any(
        p[0] >= q[0] and p[1] >= q[1] and p[0] + p[2] <= q[0] + q[2] and p[1] + p[3] <= q[1] + q[3]
        for q in every if q != p
    )])  # fmt: skip
