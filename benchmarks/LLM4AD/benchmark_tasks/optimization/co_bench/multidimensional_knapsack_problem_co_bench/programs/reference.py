import numpy as np


def solve(n: int, m: int, p: np.ndarray, r: np.ndarray, b: np.ndarray) -> list[int]:
    """Prices of the constraints by subgradient steps on the Lagrangian dual, items by profit per priced weight
    (Magazine and Oguz, 1984; Pirkul, 1987), then swaps and restarts (iterated greedy)."""
    scaled = r / np.maximum(b, 1e-9)[:, None]
    order = np.argsort(-p / (prices(p, scaled) @ scaled + 1e-12), kind="stable")
    best = swapped(filled(np.zeros(n, dtype=bool), order, r, b), order, p, r, b)
    rng = np.random.default_rng(1)
    for _ in range(40):
        kept = best & (rng.random(n) > 0.15)
        noisy = order[np.argsort(np.arange(n) + rng.normal(0, 0.05 * n, n), kind="stable")]
        other = swapped(filled(kept, noisy, r, b), order, p, r, b)
        if p @ other > p @ best:
            best = other
    return best.astype(int).tolist()


def prices(p, scaled, steps=150):
    u = np.full(len(scaled), p.sum() / len(scaled) / max(scaled.sum(axis=1).max(), 1e-9))
    best, value = u, np.inf
    for step in range(steps):
        gain = p - u @ scaled
        taken = gain > 0
        dual = gain[taken].sum() + u.sum()
        if dual < value:
            best, value = u, dual
        slope = 1 - scaled[:, taken].sum(axis=1)
        u = np.maximum(0, u - slope * dual * 0.05 * 0.97**step / max(slope @ slope, 1e-9))
    return best


def filled(taken, order, r, b):
    taken = taken.copy()
    left = b - r[:, taken].sum(axis=1)
    for j in order:
        if not taken[j] and (r[:, j] <= left).all():
            taken[j] = True
            left = left - r[:, j]
    return taken


def swapped(taken, order, p, r, b):
    while True:
        left = b - r[:, taken].sum(axis=1)
        inside, outside = np.flatnonzero(taken), np.flatnonzero(~taken)
        gain = p[outside][None, :] - p[inside][:, None]
        fits = (r[:, None, outside] <= left[:, None, None] + r[:, inside, None]).all(axis=0)
        gain = np.where(fits, gain, 0)
        if gain.size == 0 or gain.max() <= 0:
            return taken
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        taken = taken.copy()
        taken[inside[i]], taken[outside[j]] = False, True
        taken = filled(taken, order, r, b)
