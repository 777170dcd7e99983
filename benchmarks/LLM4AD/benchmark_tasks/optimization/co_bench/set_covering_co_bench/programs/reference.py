import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 0.04, 5: 3}[LEVEL]


def solve(m: int, n: int, costs: np.ndarray, row_cover: list[list[int]]) -> list[int]:
    """Greedy by cost for each new row (Chvatal, 1979), superfluous columns left out; the same with the costs that the
    linear relaxation leaves when rows pay their prices (Caprara, Fischetti, Toth, 1999), and again and again from the
    best cover less a random part of it (Jacobs and Brusco, 1995)."""
    covers = np.zeros((n, m), dtype=np.float32)
    for row, columns in enumerate(row_cover):
        covers[columns, row] = 1
    costs = costs.astype(float)
    best = cover([], covers, costs)
    if LEVEL < 3:
        return sorted(best)
    shares, reduced = relaxed(covers, costs)
    core = np.union1d(np.argsort(reduced, kind="stable")[: 4 * m], best)  # what is dearer is rarely of use
    covers, costs, reduced, shares = covers[core], costs[core], reduced[core], shares[core]
    starts = [np.searchsorted(core, best).tolist()]
    starts += [cover([], covers, costs * (1.01 - shares)), cover(np.flatnonzero(shares > 0.7).tolist(), covers, costs)]
    best = current = min((reduce(s, covers, costs) for s in starts), key=lambda s: costs[s].sum())
    rng = np.random.default_rng(1)
    for _ in range(int(ROUNDS * min(m, 500**3 // m**2))):
        kept = [j for j in current if rng.random() > 0.25]
        moved = cover(kept, covers, costs * rng.uniform(0.9, 1.1, len(core)))
        if costs[moved].sum() <= costs[current].sum():
            current = moved
        if costs[moved].sum() < costs[best].sum():
            best = moved
    return sorted(core[best].tolist())


def relaxed(covers, costs):
    """The share of each column in the linear relaxation, and its reduced cost."""
    matrix = csr_matrix(covers.T)
    done = linprog(costs, A_ub=-matrix, b_ub=-np.ones(matrix.shape[0]), method="highs")
    return done.x, costs + covers @ done.ineqlin.marginals


def cover(kept, covers, costs):
    chosen = list(kept)
    times = covers[chosen].sum(axis=0)
    fresh = covers @ (times == 0).astype(np.float32)
    while (times == 0).any():
        with np.errstate(divide="ignore"):
            column = int((costs / fresh).argmin())
        new = np.flatnonzero((covers[column] > 0) & (times == 0))
        chosen.append(column)
        times += covers[column]
        fresh -= covers[:, new].sum(axis=1)
    return reduce(chosen, covers, costs) if LEVEL >= 2 else chosen


def reduce(chosen, covers, costs):
    """Without columns whose rows are all covered by others, the dearest first."""
    chosen, times = list(chosen), covers[chosen].sum(axis=0)
    for column in sorted(chosen, key=lambda j: -costs[j]):
        if (times[covers[column] > 0] > 1).all():
            times -= covers[column]
            chosen.remove(column)
    return chosen
