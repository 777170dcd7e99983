import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

LEVEL = 5

STARTS, MOVES = {1: (0, 0), 2: (1, 0), 3: (4, 0), 4: (4, 15), 5: (4, 60)}[LEVEL]
SEED = 19


def pack_circles(n: int) -> np.ndarray:
    """Basin hopping (Wales and Doye, 1997) whose local search is sequential linear programming: the distance of two
    centres is convex, so that its tangent is a bound and each linear program gives a valid packing no worse than the
    last. Level 1 finds the best radii on a grid; levels 2 and 3 are random starts."""
    rng = np.random.default_rng(SEED)
    if not STARTS:
        return shrunk(*climbed(start(n, None), rounds=1, step=0.01))
    best = max((climbed(start(n, rng)) for _ in range(STARTS)), key=lambda found: found[1].sum())
    for _ in range(max(1, MOVES * 26 // max(n, 26)) if MOVES else 0):
        found = climbed(moved(*best, rng))
        if found[1].sum() > best[1].sum() + 1e-10:
            best = found
    return shrunk(*best)


def start(n, rng):
    """Cells of a square grid, jittered unless `rng` is None."""
    k = math.ceil(math.sqrt(n))
    cells = np.arange(n) if rng is None else rng.permutation(k * k)[:n]
    jitter = 0.0 if rng is None else rng.uniform(-0.3, 0.3, (n, 2))
    return (np.column_stack([cells % k, cells // k]) + 0.5 + jitter) / k


def moved(centres, radii, rng):
    """One of the smaller circles elsewhere, or circles around a point jittered."""
    centres = centres.copy()
    kind = rng.integers(3)
    if kind == 0:
        small = np.argsort(radii)[: max(1, len(radii) // 3)]
        centres[rng.choice(small)] = rng.random(2)
        return centres
    if kind == 1:
        return np.clip(centres + rng.normal(0.0, 0.03, centres.shape), 0.01, 0.99)
    near = np.hypot(*(centres - rng.random(2)).T) < 0.3
    centres[near] += rng.normal(0.0, 0.07, (int(near.sum()), 2))
    return np.clip(centres, 0.01, 0.99)


def climbed(centres, rounds=40, step=None):
    """Centres and radii at a local optimum: the best radii and moves of at most `step` along each axis, repeated."""
    n = len(centres)
    first, second = np.triu_indices(n, 1)
    step = 0.6 / math.sqrt(n) if step is None else step
    k, one, zero = np.arange(n), np.ones(n), np.zeros(n)
    radii, last = zero, -1.0
    for _ in range(rounds):
        delta = centres[first] - centres[second]
        apart = np.maximum(np.hypot(*delta.T), 1e-9)
        near = apart < 2.4 / math.sqrt(n)
        i, j, along = first[near], second[near], delta[near] / apart[near, None]
        pair, border = np.arange(len(i)), len(i) + np.arange(4 * n)
        ones = np.ones(len(i))
        rows = np.concatenate([pair] * 6 + [border] * 2)
        columns = np.concatenate([i, j, n + i, n + j, 2 * n + i, 2 * n + j, k, k, n + k, n + k] + [2 * n + k] * 4)
        cells = [-along[:, 0], along[:, 0], -along[:, 1], along[:, 1], ones, ones, -one, one, -one, one] + [one] * 4
        solved = linprog(
            np.concatenate([zero, zero, -one]),
            A_ub=coo_matrix((np.concatenate(cells), (rows, columns)), shape=(len(i) + 4 * n, 3 * n)).tocsr(),
            b_ub=np.concatenate([0.0 * ones, zero, one, zero, one]),
            bounds=np.column_stack([
                np.concatenate([np.maximum(centres.T.ravel() - step, 0.0), zero]),
                np.concatenate([np.minimum(centres.T.ravel() + step, 1.0), one]),
            ]),
            method="highs",
        )  # fmt: skip
        if solved.x is None:
            break
        centres, radii = solved.x[: 2 * n].reshape(2, n).T, np.maximum(solved.x[2 * n :], 0.0)
        if radii.sum() < last + 1e-10:
            break
        last = radii.sum()
    return centres, fitted(centres, radii)


def fitted(centres, radii):
    """The radii, less what they overlap by (pairs that were far apart are not in the linear programs)."""
    delta = centres[:, None] - centres[None, :]
    apart = np.hypot(delta[..., 0], delta[..., 1])
    np.fill_diagonal(apart, np.inf)
    overlap = max(float((radii[:, None] + radii[None, :] - apart).max()), 0.0)
    return np.maximum(radii - overlap, 0.0)


def shrunk(centres, radii):
    """As rows, with the radii within the border to the last bit."""
    border = np.minimum(centres, 1.0 - centres).min(axis=1)
    return np.column_stack([centres, np.maximum(np.minimum(radii, border), 0.0)])
