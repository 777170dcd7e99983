import numpy as np

LEVEL = 5
TRIES = (0, 1, 2, 4, 8, 16)[LEVEL]


def solve(container_radius: float, sizes: np.ndarray) -> list[tuple[int, float, float, int]]:
    """Largest first, each at the edges of others where its farthest corner is nearest to the middle (a greedy packing
    after Lodi, Martello and Vigo, 1999, here from the middle outwards), left out where there is no room; the best of
    some tries that disturb the order."""
    rng = np.random.default_rng(1)
    area = sizes[:, 0] * sizes[:, 1]
    best, best_area = [], -1.0
    for turn in range(TRIES):
        order = np.argsort(-area * (rng.uniform(0.6, 1.0, len(area)) if turn else 1.0), kind="stable").tolist()
        rows = packed(container_radius, sizes, order, skip=True)
        total = sum(float(area[row[0]]) for row in rows)
        if total > best_area:
            best, best_area = rows, total
    return best


def place(container, a, b, boxes):
    """The lower left corner of an a x b rectangle at edges of others or at the border where its farthest corner is
    nearest to the middle, and that distance; None if there is no room. `boxes` has rows (left, low, right, top)."""
    if not len(boxes):
        return (-a / 2, -b / 2), np.hypot(a, b) / 2
    xs = np.unique(np.concatenate([boxes[:, 2], boxes[:, 0] - a, [-a / 2]]))
    ys = np.unique(np.concatenate([boxes[:, 3], boxes[:, 1] - b, [-b / 2]]))
    deep = np.sqrt(np.maximum(container**2 - np.maximum(np.abs(xs), np.abs(xs + a)) ** 2, 0)) * (1 - 1e-12)
    wide = np.sqrt(np.maximum(container**2 - np.maximum(np.abs(ys), np.abs(ys + b)) ** 2, 0)) * (1 - 1e-12)
    x = np.concatenate([np.repeat(xs, len(ys)), xs, xs, -wide, wide - a])
    y = np.concatenate([np.tile(ys, len(xs)), -deep, deep - b, ys, ys])
    far = np.hypot(np.maximum(np.abs(x), np.abs(x + a)), np.maximum(np.abs(y), np.abs(y + b)))
    inside = far <= container
    x, y, far = x[inside], y[inside], far[inside]
    slack = 1e-11 * container
    free = np.ones(len(x), dtype=bool)
    for left, low, right, top in boxes:
        free &= (x >= right - slack) | (x + a <= left + slack) | (y >= top - slack) | (y + b <= low + slack)
    if not free.any():
        return None
    best = np.flatnonzero(free)[far[free].argmin()]
    return (x[best], y[best]), far[best]


def packed(container, sizes, order, skip):
    """Rows (item, x, y, turned) of the items that fit in this order, each turned as its farthest corner is nearest."""
    boxes, rows = np.zeros((0, 4)), []
    for item in order:
        a, b = sizes[item]
        options = [(*found, turned) for turned, (p, q) in enumerate(((a, b), (b, a)))
                   if (found := place(container, p, q, boxes)) and found[1] <= container]  # fmt: skip
        if not options:
            if skip:
                continue
            return None
        (x, y), _, turned = min(options, key=lambda option: option[1])
        p, q = (b, a) if turned else (a, b)
        boxes = np.vstack([boxes, [x, y, x + p, y + q]])
        rows.append((item, float(x + p / 2), float(y + q / 2), turned))
    return rows
