import numpy as np


def solve(m: int, n: int, fixed_costs: np.ndarray, costs: np.ndarray) -> list[int]:
    """Warehouses are added as long as one saves money (Kuehn and Hamburger, 1963); then, as long as it helps, one is
    opened, closed, or exchanged for another (Cornuejols, Fisher, Nemhauser, 1977)."""
    fixed, costs = fixed_costs.astype(float), costs.astype(float)
    is_open = np.zeros(m, dtype=bool)
    is_open[(fixed + costs.sum(axis=0)).argmin()] = True
    value = total(is_open, fixed, costs)
    while True:
        best, change = value - 1e-9, None
        for out in [None, *np.flatnonzero(is_open).tolist()]:
            rest = is_open.copy()
            if out is not None:
                rest[out] = False
            near = costs[:, rest].min(axis=1) if rest.any() else np.full(n, np.inf)
            if rest.any() and fixed[rest].sum() + near.sum() < best:
                best, change = fixed[rest].sum() + near.sum(), (out, None)
            adding = fixed[rest].sum() + fixed + np.minimum(costs, near[:, None]).sum(axis=0)
            adding[is_open] = np.inf
            if adding.min() < best:
                best, change = adding.min(), (out, int(adding.argmin()))
        if change is None:
            break
        out, new = change
        if out is not None:
            is_open[out] = False
        if new is not None:
            is_open[new] = True
        value = best
    sites = np.flatnonzero(is_open)
    return sites[costs[:, sites].argmin(axis=1)].tolist()


def total(is_open, fixed, costs):
    return fixed[is_open].sum() + costs[:, is_open].min(axis=1).sum()
