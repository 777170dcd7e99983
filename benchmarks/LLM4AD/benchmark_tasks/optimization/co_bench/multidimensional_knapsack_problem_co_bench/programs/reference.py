import numpy as np
from scipy.optimize import linprog

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 0.2, 5: 8}[LEVEL]


def solve(n: int, m: int, p: np.ndarray, r: np.ndarray, b: np.ndarray) -> list[int]:
    """Items by profit per weight at the prices of the constraints in the linear relaxation (Pirkul, 1987), then swaps
    of two items, then the same again and again without a few items (iterated greedy)."""
    scaled = r / np.maximum(b, 1e-9)[:, None]
    prices = np.ones(m)
    if LEVEL >= 2:
        done = linprog(-p, A_ub=r, b_ub=b, bounds=(0, 1), method="highs")
        prices = np.maximum(0, -done.ineqlin.marginals) * b
    worth = p / (prices @ scaled + 1e-9)
    best = filled(np.zeros(n, dtype=bool), worth, r, b)
    if LEVEL >= 3:
        best = swapped(best, worth, p, r, b)
    rng = np.random.default_rng(1)
    order = np.argsort(-worth, kind="stable")
    for _ in range(int(ROUNDS * min(n, 500_000_000 // (m * n * n)))):
        kept = best & (rng.random(n) > 0.25)
        rank = np.empty(n)
        rank[order] = np.arange(n) + rng.normal(0, 0.05 * n, n)
        other = swapped(filled(kept, -rank, r, b), worth, p, r, b)
        if p @ other > p @ best:
            best = other
    return best.astype(int).tolist()


def filled(taken, worth, r, b):
    """Each item that still fits, the most worth first."""
    taken = taken.copy()
    left = b - r[:, taken].sum(axis=1)
    while True:
        fits = np.flatnonzero(~taken & (r <= left[:, None]).all(axis=0))
        if len(fits) == 0:
            return taken
        for j in fits[np.argsort(-worth[fits], kind="stable")]:
            if (r[:, j] <= left).all():
                taken[j] = True
                left = left - r[:, j]


def swapped(taken, worth, p, r, b):
    """The best swap of an item for another one that fits, and what fits then, until none gains."""
    while True:
        left = b - r[:, taken].sum(axis=1)
        inside, outside = np.flatnonzero(taken), np.flatnonzero(~taken)
        gain = p[outside][None, :] - p[inside][:, None]
        rows, columns = np.nonzero(gain > 0)
        order = np.argsort(-gain[rows, columns], kind="stable")
        for start in range(0, len(order), 1000):  # the best first: as a rule few fit
            out, new = inside[rows[order[start : start + 1000]]], outside[columns[order[start : start + 1000]]]
            fits = (r[:, new] - r[:, out] <= left[:, None]).all(axis=0)
            if fits.any():
                break
        else:
            return taken
        taken = taken.copy()
        taken[out[fits.argmax()]], taken[new[fits.argmax()]] = False, True
        taken = filled(taken, worth, r, b)
