import numpy as np

KEYS = [lambda i: -i[0] * i[1], lambda i: -max(i), lambda i: -i[0] - i[1], lambda i: -i[0], lambda i: -i[1]]
"""Orders of the items: by area, longer side, half of the girth, width and height."""


def determine_next_assignment(remaining_items: np.ndarray, free_rectangles: np.ndarray) -> tuple[int, int | None]:
    """Packs all items that are left anew at each call, in five orders: maximal rectangles, best short side fit
    (Jylanki, A thousand ways to pack the bin, 2010). The first item of the best packing goes where it is there."""
    items = [(*item, row) for row, item in enumerate(remaining_items.tolist())]
    if len(free_rectangles) == 0:
        return min(items, key=KEYS[0])[2], None
    sides = (free_rectangles[:, 1:3] + free_rectangles[:, 3:]).max(axis=0).tolist()
    open_bins = [[] for _ in range(1 + int(free_rectangles[:, 0].max()))]
    for number, *place in free_rectangles.tolist():
        open_bins[number].append(tuple(place))
    found = [packed(sorted(items, key=key), open_bins, sides) for key in KEYS]
    _, row, where = min(found, key=lambda one: one[0])
    if where is None:
        return row, None
    return row, int((free_rectangles == where).all(axis=1).argmax())


def packed(items, open_bins, sides):
    """How many bins there are and what the last one holds; the first item, and the free rectangle that it goes into."""
    free, filled, first = [list(places) for places in open_bins], [0] * len(open_bins), None
    for width, height, row in items:
        best, where = (float("inf"), 0), None
        for number, places in enumerate(free):
            for x, y, across, up in places:
                over, above = across - width, up - height
                if over >= 0 and above >= 0:
                    short = (over, above) if over < above else (above, over)
                    if short < best:
                        best, where = short, (number, x, y, across, up)
        if first is None:
            first = row, where
        if where is None:
            where = len(free), 0, 0, *sides
            free.append([where[1:]])
            filled.append(0)
        number, x, y = where[:3]
        filled[number] += width * height
        free[number] = without(free[number], x, y, width, height)
    return (len(free), filled[-1]), *first


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
