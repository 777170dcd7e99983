import numpy as np


def solve(data: np.ndarray, n_groups: int) -> list[int]:
    """Deals out at random, then gives each individual in turn its best move or swap while one helps (the exchanges of
    Mingers and O'Brien, 1995), from several starts."""
    n = len(data)
    mean = data.sum(axis=0) / n_groups
    rng = np.random.default_rng(1)
    best, least = None, np.inf
    for _ in range(5):
        groups = np.empty(n, dtype=int)
        groups[rng.permutation(n)] = np.arange(n) % n_groups
        cost = improve(groups, data, mean, n_groups)
        if cost < least:
            best, least = groups, cost
    return best.tolist()


def improve(groups, data, mean, k):
    """Changes `groups` in place; returns the imbalance."""
    away = np.zeros((k, data.shape[1])) - mean
    np.add.at(away, groups, data)
    idle, i = 0, 0
    steps = 20_000_000 // data.size  # each takes a time in proportion to the size of the data
    while idle < len(data) and steps > 0:
        steps -= 1
        changed = False
        a, row = groups[i], data[i]
        now = np.abs(away).sum(axis=1)
        change = data - row
        swaps = now[a] + now[groups] - np.abs(away[a] + change).sum(axis=1) - np.abs(away[groups] - change).sum(axis=1)
        swaps[groups == a] = 0
        moves = now[a] - np.abs(away[a] - row).sum() + now - np.abs(away + row).sum(axis=1)
        moves[a] = 0
        if np.count_nonzero(groups == a) == 1:
            moves[:] = 0
        if max(swaps.max(), moves.max()) > 1e-9:
            changed = True
            if swaps.max() >= moves.max():
                j = int(swaps.argmax())
                b, shift = groups[j], row - data[j]
                groups[j] = a
            else:
                b, shift = int(moves.argmax()), row
            away[a] -= shift
            away[b] += shift
            groups[i] = b
        idle = 0 if changed else idle + 1
        i = (i + 1) % len(data)
    return np.abs(away).sum()
