import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """Nodes of few free neighbours first, then a local search that adds free nodes, swaps a node for one of the set
    that is its only neighbour there, and else forces one in; what was removed is tabu for a while (Friden, Hertz and de
    Werra, 1989; Pullan and Hoos, 2006)."""
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    rng = np.random.default_rng(1)
    inside = least_degree(near)
    joined = near[:, inside].sum(axis=1)
    until = np.zeros(n, dtype=int)
    best = inside.copy()
    for step in range(4000):
        out = ~inside
        ready = out & (until <= step)
        choice = np.flatnonzero(out & (joined == 0))
        if len(choice) == 0:
            choice = np.flatnonzero(ready & (joined == 1))
        if len(choice) == 0 or step % 500 == 499:
            choice = np.flatnonzero(ready)
        if len(choice) == 0:
            continue
        node = choice[rng.integers(len(choice))]
        removed = np.flatnonzero(inside & near[node])
        inside[removed] = False
        inside[node] = True
        joined = joined + near[node] - near[removed].sum(axis=0)
        until[removed] = step + 5 + rng.integers(5)
        if inside.sum() > best.sum():
            best = inside.copy()
    return np.flatnonzero(best).tolist()


def least_degree(near):
    inside, free = np.zeros(len(near), dtype=bool), np.ones(len(near), dtype=bool)
    while free.any():
        degrees = np.where(free, (near & free).sum(axis=1), len(near))
        node = int(degrees.argmin())
        inside[node] = True
        free &= ~near[node]
        free[node] = False
    return inside
