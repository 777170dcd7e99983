import numpy as np


def solve(n: int, p: int, dist: np.ndarray) -> list[int]:
    """Greedy (Kuehn and Hamburger, 1963), then exchanges of a median for another vertex, the best first, until none
    helps (Teitz and Bart, 1968; gains for all pairs at once as in Whitaker, 1983)."""
    dist = dist.astype(float)
    medians, near = [], np.full(n, dist.max() + 1)
    for _ in range(p):
        cost = np.minimum(dist, near).sum(axis=1)
        cost[medians] = np.inf
        medians.append(int(cost.argmin()))
        near = np.minimum(near, dist[medians[-1]])
    while True:
        order = np.argsort(dist[medians], axis=0, kind="stable")
        first = np.take_along_axis(dist[medians], order[:1], axis=0)[0]
        second = np.take_along_axis(dist[medians], order[1:2], axis=0)[0] if p > 1 else np.full(n, np.inf)
        gain = np.maximum(first - dist, 0).sum(axis=1)  # of adding a vertex
        change = np.empty((p, n))
        for number in range(p):
            mine = order[0] == number
            lost = np.minimum(dist[:, mine], second[mine]) - np.minimum(dist[:, mine], first[mine])
            change[number] = lost.sum(axis=1) - gain
        number, vertex = np.unravel_index(change.argmin(), change.shape)
        if not change[number, vertex] < -1e-9:
            return [int(m) for m in medians]
        medians[number] = int(vertex)
