import math

import numpy as np


def pack_circles(n: int) -> np.ndarray:
    """Moves centres and radii against a growing penalty for overlaps (the quadratic penalty method, with the steps of
    Adam: Kingma and Ba, 2015), then shrinks what still overlaps and grows what has room."""
    rng = np.random.default_rng(7)
    best = None
    for _ in range(2):
        rows = repaired(*climb(start(n, rng)))
        if best is None or rows[:, 2].sum() > best[:, 2].sum():
            best = rows
    return best


def start(n, rng):
    """A jittered grid with radii somewhat below what fits."""
    k = math.ceil(math.sqrt(n))
    cells = rng.permutation(k * k)[:n]
    centres = (np.column_stack([cells % k, cells // k]) + 0.5 + rng.uniform(-0.25, 0.25, (n, 2))) / k
    return np.column_stack([centres, np.full(n, 0.4 / k)])


def climb(v, steps=900):
    """Adam on -sum(r) + weight * (squared overlaps)."""
    n = len(v)
    mean, square = np.zeros_like(v), np.zeros_like(v)
    scale = 0.5 / math.ceil(math.sqrt(n))
    for step in range(1, steps + 1):
        done = step / steps
        weight = (5.0 + 400.0 * done**2) / scale
        gradient = slope(v, weight)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        rate = 0.12 * scale * (1.0 - done) ** 1.5 + 1e-5
        v = v - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
        v[:, :2] = np.clip(v[:, :2], 0.0, 1.0)
        v[:, 2] = np.maximum(v[:, 2], 0.0)
    return v[:, :2], v[:, 2]


def slope(v, weight):
    delta = v[:, None, :2] - v[None, :, :2]
    distance = np.sqrt((delta**2).sum(-1)) + 1e-12
    overlap = np.maximum(v[:, None, 2] + v[None, :, 2] - distance, 0.0)
    np.fill_diagonal(overlap, 0.0)
    low = np.maximum(v[:, 2:] - v[:, :2], 0.0)
    high = np.maximum(v[:, :2] + v[:, 2:] - 1.0, 0.0)
    out = np.empty_like(v)
    out[:, :2] = 2 * weight * (high - low - (delta * (overlap / distance)[..., None]).sum(1))
    out[:, 2] = -1.0 + 2 * weight * (overlap.sum(1) + low.sum(1) + high.sum(1))
    return out


def repaired(centres, radii):
    """Scales the radii until they fit the centres, then grows each circle as far as it may."""
    n = len(radii)
    border = np.minimum(centres, 1.0 - centres).min(1)
    delta = centres[:, None, :] - centres[None, :, :]
    distance = np.sqrt((delta**2).sum(-1))
    np.fill_diagonal(distance, np.inf)
    r = np.minimum(radii, border)
    share = distance / np.maximum(r[:, None] + r[None, :], 1e-12)
    r = r * np.minimum(1.0, share.min(1))
    for _ in range(3):
        for i in np.argsort(-r):
            r[i] = max(0.0, min(border[i], (distance[i] - np.where(np.arange(n) == i, 0.0, r)).min()))
    return np.column_stack([centres, r])
