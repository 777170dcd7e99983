import numpy as np

LEVEL = 5

TERMS = {4: 1}.get(LEVEL)
"""Of how many lengths or widths a cut's place may be the sum; None: of any number."""


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """The dynamic program of Gilmore and Gomory (The theory and computation of knapsack functions, 1966) over all
    sums of lengths and of widths (Herz, 1972): the best value of each rectangle is that of its best piece or cut. It is
    optimal. Level 4 cuts at fewer places; levels 1 to 3 are strips, of equal pieces, of any, and along either side."""
    if LEVEL <= 3:
        lying = strips(stock_length, stock_width, pieces.tolist())
        if LEVEL < 3:
            return lying
        standing = strips(stock_width, stock_length, pieces[:, [1, 0, 2]].tolist())
        plans = [lying, [(piece, x, y) for piece, y, x in standing]]
        return max(plans, key=lambda plan: sum(int(pieces[piece, 2]) for piece, _, _ in plan))
    across, up = sums(pieces[:, 0], stock_length, TERMS), sums(pieces[:, 1], stock_width, TERMS)
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


def strips(length, width, rows):
    """Two stages: for each width the best strip of pieces no wider, then the best strips one above the other."""
    options = []
    for piece, (across, up, value) in enumerate(rows):
        inside = [(piece, across, value)] if LEVEL == 1 else [(i, a, v) for i, (a, u, v) in enumerate(rows) if u <= up]
        options.append((up, *knapsack(inside, length)))
    order, _ = knapsack([(number, up, value) for number, (up, _, value) in enumerate(options)], width)
    placements, y = [], 0
    for number in order:
        x = 0
        for piece in options[number][1]:
            placements.append((piece, x, y))
            x += rows[piece][0]
        y += options[number][0]
    return placements


def knapsack(items, limit):
    """The best choice of (number, size, value), each any number of times, and its value."""
    best, last = [0] * (limit + 1), [None] * (limit + 1)
    for room in range(1, limit + 1):
        best[room], last[room] = best[room - 1], None
        for item in items:
            if item[1] <= room and best[room - item[1]] + item[2] > best[room]:
                best[room], last[room] = best[room - item[1]] + item[2], item
    chosen, room = [], limit
    while room:
        if last[room] is None:
            room -= 1
        else:
            chosen.append(last[room][0])
            room -= last[room][1]
    return chosen, best[limit]


def sums(lengths, limit, terms):
    """Sums of the lengths, each any number of times, `terms` at most, up to the limit, which is one of them."""
    reached = np.zeros(limit + 1, dtype=bool)
    reached[0] = True
    for _ in range(limit // int(lengths.min()) if terms is None else terms):
        longer = reached.copy()
        for length in lengths.tolist():
            longer[length:] |= reached[: limit + 1 - length]
        reached = longer
    reached[limit] = True
    return np.flatnonzero(reached)


def cuts(lengths):
    """For each length the places of the shorter part, and of the longer part rounded down to a sum."""
    found = []
    for length in lengths:
        first = np.arange(1, np.searchsorted(lengths, length // 2, side="right"))
        found.append((first, np.searchsorted(lengths, length - lengths[first], side="right") - 1))
    return found
