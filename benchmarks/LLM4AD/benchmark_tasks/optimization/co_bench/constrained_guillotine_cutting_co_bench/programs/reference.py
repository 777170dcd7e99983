import numpy as np

LEVEL = 5

GREEDY = {1: 1, 2: 30, 3: 400, 4: 400, 5: 400}[LEVEL]
WORK = {1: 0, 2: 0, 3: 0, 4: 1, 5: 60_000}[LEVEL]
"""States of dynamic programs: one program at level 4, at level 5 as many as have so many states in all."""


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """A dynamic program over rectangles that keeps one pattern for each, the best that can be combined of two smaller
    ones without exceeding a limit (after Christofides and Hadjiconstantinou, European Journal of Operational
    Research 83, 1995), repeated with disturbed values. Lower levels take the best of randomized greedy patterns: the
    next piece by value for its area goes into the free rectangle where it leaves the shortest side, and a guillotine
    cut divides what is left (Jylänki, A thousand ways to pack the bin, 2010)."""
    rng = np.random.default_rng(1)
    rows = pieces.tolist()
    area = pieces[:, 0] * pieces[:, 1] / (stock_length * stock_width)
    best, best_value = [], -1
    weights = pieces[:, 3] / area * area**0.3
    for turn in range(GREEDY):
        trial = weights * rng.lognormal(0.0, 0.35, len(rows)) if turn else weights
        found, value = filled(stock_length, stock_width, rows, np.argsort(-trial, kind="stable").tolist(), turn % 3)
        if value > best_value:
            best, best_value, weights = found, value, trial
    across, up = sums(pieces[:, 0], pieces[:, 2], stock_length), sums(pieces[:, 1], pieces[:, 2], stock_width)
    done = 0
    while done < WORK:
        values = pieces[:, 3] * (rng.lognormal(0.0, 0.15, len(rows)) if done else 1.0)
        found = combined(across, up, rows, pieces[:, 2], values)
        value = sum(rows[i][3] for i, _, _ in found)
        if value > best_value:
            best, best_value = found, value
        done += len(across) * len(up)
    return best


def sums(lengths, most, limit):
    """Sums of the lengths, each as often as it may be cut, up to the limit, which is one of them."""
    reached = np.zeros(limit + 1, dtype=bool)
    reached[[0, limit]] = True
    for length, times in zip(lengths.tolist(), most.tolist(), strict=True):
        for _ in range(min(times, limit // length)):
            reached[length:] |= reached[: limit + 1 - length].copy()
    return np.flatnonzero(reached)


def combined(across, up, rows, most, values):
    """Placements of the pattern of the whole sheet."""
    shape = len(across), len(up)
    best, used = np.zeros(shape), np.zeros((*shape, len(rows)), dtype=np.int16)
    choice = {}
    for number, (length, width, _, _) in enumerate(rows):
        i, j = np.searchsorted(across, length), np.searchsorted(up, width)
        for a, b in np.argwhere(best[i:, j:] < values[number]):
            best[i + a, j + b] = values[number]
            used[i + a, j + b] = np.arange(len(rows)) == number
            choice[i + a, j + b] = ("piece", number, 0)
    vertical, horizontal = cuts(across), cuts(up)
    for i, (left, right) in enumerate(vertical):
        for j, (below, above) in enumerate(horizontal):
            for kind, first, second in (("x", (left, j), (right, j)), ("y", (i, below), (i, above))):
                totals = best[first] + best[second]
                promising = np.flatnonzero(totals > best[i, j])
                if len(promising):
                    first, second = pick(first, promising), pick(second, promising)
                    counts = used[first] + used[second]
                    totals = np.where((counts <= most).all(axis=1), totals[promising], -1.0)
                    k = int(totals.argmax())
                    if totals[k] > best[i, j]:
                        best[i, j], used[i, j] = totals[k], counts[k]
                        choice[i, j] = (kind, at(first, k), at(second, k))
    placements, todo = [], [(len(across) - 1, len(up) - 1, 0, 0)]
    while todo:
        i, j, x, y = todo.pop()
        kind, a, b = choice.get((i, j), ("waste", 0, 0))
        if kind == "piece":
            placements.append((a, x, y))
        elif kind == "x":
            todo += [(*a, x, y), (*b, x + int(across[a[0]]), y)]
        elif kind == "y":
            todo += [(*a, x, y), (*b, x, y + int(up[a[1]]))]
    return placements


def pick(states, chosen):
    return tuple(index[chosen] if isinstance(index, np.ndarray) else index for index in states)


def at(states, k):
    return tuple(int(index[k]) if isinstance(index, np.ndarray) else index for index in states)


def cuts(lengths):
    """For each length the places of the shorter part, and of the longer part rounded down to a sum."""
    found = []
    for length in lengths:
        first = np.arange(1, np.searchsorted(lengths, length // 2, side="right"))
        found.append((first, np.searchsorted(lengths, length - lengths[first], side="right") - 1))
    return found


def filled(length, width, rows, order, rule):
    free, placements, total = [(0, 0, length, width)], [], 0
    for i in order:
        across, up, most, value = rows[i]
        for _ in range(most):
            place = min(
                ((min(a - across, b - up), k) for k, (_, _, a, b) in enumerate(free) if a >= across and b >= up),
                default=None,
            )
            if place is None:
                break
            x, y, a, b = free.pop(place[1])
            placements.append((i, x, y))
            total += value
            beside = a - across < b - up if rule == 0 else (a - across > b - up if rule == 1 else across * b > up * a)
            if beside:
                parts = [(x + across, y, a - across, up), (x, y + up, a, b - up)]
            else:
                parts = [(x + across, y, a - across, b), (x, y + up, across, b - up)]
            free += [part for part in parts if part[2] > 0 and part[3] > 0]
    return placements, total
