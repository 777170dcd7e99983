import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 20, 5: 500}[LEVEL]


def solve(data: np.ndarray, n_groups: int) -> list[int]:
    """Puts individuals one after the other where they do least harm, those with the rarest mix first, then gives each
    in turn its best move or swap while one helps (the exchanges of Mingers and O'Brien, 1995), and again after some
    random swaps (iterated local search)."""
    n, mean = len(data), data.sum(axis=0) / n_groups
    rng = np.random.default_rng(1)
    best = dealt(data, n_groups)
    if LEVEL == 1:
        return best.tolist()
    least = improve(best, data, mean, n_groups)
    for _ in range(min(ROUNDS, ROUNDS * n // 100, ROUNDS * 2_000 // data.size)):
        groups = best.copy()
        one, other = rng.integers(n, size=(2, 2 + int(rng.integers(5))))
        for i, j in zip(one, other, strict=True):
            groups[i], groups[j] = groups[j], groups[i]
        cost = improve(groups, data, mean, n_groups)
        if cost <= least:
            best, least = groups, cost
    return best.tolist()


def dealt(data, k):
    """Each to the group where the counts, as far as dealt out, differ least from even ones; groups fill up evenly."""
    groups, counts, sizes = np.zeros(len(data), dtype=int), np.zeros((k, data.shape[1])), np.zeros(k)
    odd = np.abs(data - data.mean(axis=0)).sum(axis=1)
    for i in np.argsort(-odd, kind="stable"):
        after = np.abs(counts + data[i] - (counts.sum(axis=0) + data[i]) / k).sum(axis=1)
        before = np.abs(counts - (counts.sum(axis=0) + data[i]) / k).sum(axis=1)
        groups[i] = np.where(sizes == sizes.min(), after - before, np.inf).argmin()
        counts[groups[i]] += data[i]
        sizes[groups[i]] += 1
    return groups


def improve(groups, data, mean, k):
    """Changes `groups` in place; returns the imbalance."""
    away = np.zeros((k, data.shape[1])) - mean
    np.add.at(away, groups, data)
    idle, i = 0, 0
    seen = np.arange(min(len(data), max(16_000 // data.shape[1], 1)))  # of very many, each swaps with those behind it
    while idle < len(data):
        a, row = groups[i], data[i]
        now = np.abs(away).sum(axis=1)
        moves = now[a] - np.abs(away[a] - row).sum() + now - np.abs(away + row).sum(axis=1)
        moves[a] = 0
        if np.count_nonzero(groups == a) == 1:
            moves[:] = 0
        gain, b, shift, back = moves.max(), int(moves.argmax()), row, None
        if LEVEL >= 3:
            others = (i + seen) % len(data) if len(seen) < len(data) else seen
            change, theirs = data[others] - row, groups[others]
            swaps = now[a] + now[theirs] - np.abs(away[a] + change).sum(axis=1)
            swaps -= np.abs(away[theirs] - change).sum(axis=1)
            swaps[theirs == a] = 0
            if swaps.max() >= gain:
                back = int(others[swaps.argmax()])
                gain, b, shift = swaps.max(), groups[back], row - data[back]
        idle += 1
        if gain > 1e-9:
            away[a] -= shift
            away[b] += shift
            groups[i], idle = b, 0
            if back is not None:
                groups[back] = a
        i = (i + 1) % len(data)
    return np.abs(away).sum()
