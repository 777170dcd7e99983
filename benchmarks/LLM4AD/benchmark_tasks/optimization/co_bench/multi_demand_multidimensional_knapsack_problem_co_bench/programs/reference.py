import numpy as np
from scipy.optimize import linprog

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 15, 5: 400}[LEVEL]


def solve(
    n: int, m: int, q: int, c: np.ndarray, a_leq: np.ndarray, b_leq: np.ndarray, a_geq: np.ndarray, b_geq: np.ndarray
) -> list[int]:
    """The linear relaxation says what most items are; for the others a feasible choice by flips and swaps that lessen
    what is violated, then the best flips and swaps that keep it feasible: local search in the neighbourhoods of
    Cappanera and Trubian (2005), again and again from the best choice with a few items changed."""
    rows, limits = np.vstack([a_leq, -a_geq]), np.concatenate([b_leq, -b_geq])
    share, order = np.full(n, b_leq.sum() / max(1, a_leq.sum())), np.arange(n)
    done = linprog(-c, A_ub=rows, b_ub=limits, bounds=(0, 1), method="highs") if LEVEL >= 3 else None
    if done is not None and done.status == 0:
        share, order = done.x, np.argsort(np.abs(c + rows.T @ done.ineqlin.marginals), kind="stable")
    for size in (min(n, 40 + 3 * len(rows)) if LEVEL >= 3 else n, n):
        core, choice = order[:size], share > 0.5
        choice[core] = False
        found = search(c[core], rows[:, core], limits - rows @ choice, share[core])
        if found is not None:
            choice[core] = found
            return choice.astype(int).tolist()
    return [0] * n


def search(c, rows, limits, share):
    n, rng, found = len(c), np.random.default_rng(1), []
    for _ in range(200):
        choice = repaired(rng.random(n) < share, rows, limits)
        if choice is not None:
            found.append(improved(choice, c, rows, limits))
        if len(found) == (1 if LEVEL <= 2 else 4):
            break
    if not found:
        return None
    best = max(found, key=lambda choice: c @ choice)
    for _ in range(min(ROUNDS, ROUNDS * n // 40)):
        choice = repaired(best ^ (rng.random(n) < rng.uniform(0.02, 0.15)), rows, limits)
        if choice is not None:
            choice = improved(choice, c, rows, limits)
            if c @ choice >= c @ best:
                best = choice
    return best


def improved(choice, c, rows, limits):
    """The choice after the best flips (from level 2 on swaps, too) that keep it feasible, until none gains."""
    while True:
        left = (limits - rows @ choice)[:, None]
        signs = np.where(choice, -1.0, 1.0)
        change, gain = signs * rows, signs * c
        inside, outside = np.flatnonzero(choice), np.flatnonzero(~choice)
        flips = np.where((change <= left).all(axis=0), gain, 0)
        swaps = gain[inside][:, None] + gain[outside]
        one, other = np.nonzero(swaps > max(0, flips.max()))
        best = np.argsort(-swaps[one, other], kind="stable") if LEVEL >= 2 else []
        for start in range(0, len(best), 2000):  # the dearest first: as a rule few fit
            pairs = best[start : start + 2000]
            fits = (change[:, inside[one[pairs]]] + change[:, outside[other[pairs]]] <= left).all(axis=0)
            if fits.any():
                pair = pairs[fits.argmax()]
                choice[inside[one[pair]]], choice[outside[other[pair]]] = False, True
                break
        else:
            if flips.max() <= 0:
                return choice
            choice[flips.argmax()] ^= True


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
