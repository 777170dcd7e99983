import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """The dynamic program of Gilmore and Gomory (The theory and computation of knapsack functions, 1966) over all
    sums of lengths and of widths (Herz, 1972): the best value of each rectangle is that of its best piece or cut."""
    across, up = sums(pieces[:, 0], stock_length), sums(pieces[:, 1], stock_width)
    best = np.zeros((len(across), len(up)))
    choice = {}
    for number, (length, width, value) in enumerate(pieces.tolist()):
        i, j = np.searchsorted(across, length), np.searchsorted(up, width)
        for a, b in np.argwhere(best[i:, j:] < value):
            best[i + a, j + b] = value
            choice[i + a, j + b] = ("piece", number, 0)
    vertical, horizontal = cuts(across), cuts(up)
    for i, (left, right) in enumerate(vertical):
        if len(left):
            totals = best[left] + best[right]
            chosen = totals.argmax(axis=0)
            for j in np.flatnonzero(totals.max(axis=0) > best[i]):
                best[i, j] = totals[chosen[j], j]
                choice[i, j] = ("x", int(left[chosen[j]]), int(right[chosen[j]]))
        row = best[i]
        for j, (below, above) in enumerate(horizontal):
            if len(below):
                totals = row[below] + row[above]
                k = totals.argmax()
                if totals[k] > row[j]:
                    row[j] = totals[k]
                    choice[i, j] = ("y", int(below[k]), int(above[k]))
    placements, todo = [], [(len(across) - 1, len(up) - 1, 0, 0)]
    while todo:
        i, j, x, y = todo.pop()
        kind, a, b = choice.get((i, j), ("waste", 0, 0))
        if kind == "piece":
            placements.append((a, x, y))
        elif kind == "x":
            todo += [(a, j, x, y), (b, j, x + int(across[a]), y)]
        elif kind == "y":
            todo += [(i, a, x, y), (i, b, x, y + int(up[a]))]
    return placements


def sums(lengths, limit):
    """Sums of the lengths, each any number of times, up to the limit."""
    reached = np.zeros(limit + 1, dtype=bool)
    reached[0] = True
    for total in range(limit + 1):
        if reached[total]:
            reached[[total + n for n in lengths if total + n <= limit]] = True
    return np.flatnonzero(reached)


def cuts(lengths):
    """For each length the places of the shorter part, and of the longer part rounded down to a sum."""
    found = []
    for length in lengths:
        first = np.arange(1, np.searchsorted(lengths, length // 2, side="right"))
        found.append((first, np.searchsorted(lengths, length - lengths[first], side="right") - 1))
    return found
