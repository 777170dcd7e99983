import numpy as np


def solve(
    n: int, m: int, q: int, c: np.ndarray, a_leq: np.ndarray, b_leq: np.ndarray, a_geq: np.ndarray, b_geq: np.ndarray
) -> list[int]:
    """From random choices, flips and swaps until nothing is violated; then adds or drops single items while the value
    grows."""
    rows = np.vstack([a_leq, -a_geq])
    limits = np.concatenate([b_leq, -b_geq])
    for seed in range(200):
        choice = repaired(np.random.default_rng(seed).random(n) < b_leq.sum() / max(1, a_leq.sum()), rows, limits)
        if choice is not None:
            break
    else:
        return [0] * n
    signs = np.where(choice, -1.0, 1.0)
    for j in np.argsort(-c * signs, kind="stable"):
        if c[j] * signs[j] > 0 and (rows @ choice + signs[j] * rows[:, j] <= limits).all():
            choice[j] = not choice[j]
    return choice.astype(int).tolist()


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
