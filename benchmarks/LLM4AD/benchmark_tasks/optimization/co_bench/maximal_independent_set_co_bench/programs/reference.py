import numpy as np

LEVEL = 5
STEPS = {1: 0, 2: 0, 3: 300, 4: 4000, 5: 100_000}[LEVEL]


def solve(n: int, edges: np.ndarray) -> list[int]:
    """Nodes of few free neighbours first, then a local search that adds free nodes, swaps a node for one of the set
    that is its only neighbour there, and else forces one in; what was removed is tabu for a while (Friden, Hertz and de
    Werra, 1989; Pullan and Hoos, 2006)."""
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    rng = np.random.default_rng(1)
    inside = least_degree(near)
    counts = near.astype(np.int16)
    joined = counts[inside].sum(axis=0)
    until = np.zeros(n, dtype=int)  # the step before which a node may not come back
    best, most = inside.copy(), int(inside.sum())
    for step in range(STEPS * min(n, 800) // 800):
        choice = np.flatnonzero((joined == 0) & ~inside)
        if len(choice) == 0:
            choice = np.flatnonzero((joined == 1) & ~inside & (until <= step))
        if len(choice) == 0 or step % 1000 == 999:
            choice = np.flatnonzero(~inside & (until <= step))
        if len(choice) == 0:
            continue
        node = choice[int(rng.random() * len(choice))]
        removed = np.flatnonzero(inside & near[node])
        inside[removed] = False
        inside[node] = True
        joined += counts[node]
        for other in removed:
            joined -= counts[other]
        until[removed] = step + 5 + int(rng.random() * 10)
        if inside.sum() > most:
            best, most = inside.copy(), int(inside.sum())
    return np.flatnonzero(best).tolist()


def least_degree(near):
    """A node with the fewest free neighbours, again and again; at level 1 the fewest neighbours."""
    inside, free = np.zeros(len(near), dtype=bool), np.ones(len(near), dtype=bool)
    while free.any():
        degrees = np.where(free, (near if LEVEL == 1 else near & free).sum(axis=1), len(near))
        node = int(degrees.argmin())
        inside[node] = True
        free &= ~near[node]
        free[node] = False
    return inside
