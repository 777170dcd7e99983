import numpy as np


def solve(
    n: int, m: int, q: int, c: np.ndarray, a_leq: np.ndarray, b_leq: np.ndarray, a_geq: np.ndarray, b_geq: np.ndarray
) -> list[int]:
    """Flips and swaps to a feasible choice, then the best ones that keep it feasible, with values taken for costs."""
    rows = np.vstack([a_leq, -a_geq])
    limits = np.concatenate([b_leq, -b_geq])
    for seed in range(200):
        choice = repaired(np.random.default_rng(seed).random(n) < b_leq.sum() / max(1, a_leq.sum()), rows, limits)
        if choice is not None:
            return improved(choice, -c, rows, limits).astype(int).tolist()
    return [0] * n


def improved(choice, c, rows, limits):
    """The choice after the best flips and swaps that keep it feasible, until none gains."""
    while True:
        left = (limits - rows @ choice)[:, None]
        signs = np.where(choice, -1.0, 1.0)
        change, gain = signs * rows, signs * c
        inside, outside = np.flatnonzero(choice), np.flatnonzero(~choice)
        flips = np.where((change <= left).all(axis=0), gain, 0)
        fits = (change[:, inside, None] + change[:, None, outside] <= left[:, :, None]).all(axis=0)
        swaps = np.where(fits, gain[inside][:, None] + gain[outside], 0)
        if max(flips.max(), swaps.max(initial=0)) <= 0:
            return choice
        if flips.max() >= swaps.max(initial=0):
            choice[flips.argmax()] ^= True
        else:
            i, j = np.unravel_index(swaps.argmax(), swaps.shape)
            choice[inside[i]], choice[outside[j]] = False, True


def repaired(choice, rows, limits):
    """The choice after flips and swaps that take away as much violation as they can; None where they get stuck."""
    while True:
        used = rows @ choice
        excess = np.maximum(0, used - limits).sum()
        if excess == 0:
            return choice
        change = np.where(choice, -1.0, 1.0) * rows
        inside, outside = np.flatnonzero(choice), np.flatnonzero(~choice)
        flips = np.maximum(0, (used - limits)[:, None] + change).sum(axis=0)
        swaps = np.maximum(0, (used - limits)[:, None, None] + change[:, inside, None] + change[:, None, outside]).sum(
            axis=0
        )
        if min(flips.min(), swaps.min(initial=np.inf)) >= excess:
            return None
        if flips.min() <= swaps.min(initial=np.inf):
            choice[flips.argmin()] ^= True
        else:
            i, j = np.unravel_index(swaps.argmin(), swaps.shape)
            choice[inside[i]], choice[outside[j]] = False, True
