import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 20, 5: 200}[LEVEL]


def solve(n: int, p: int, dist: np.ndarray) -> list[int]:
    """Greedy (Kuehn and Hamburger, 1963), then exchanges of a median for another vertex, the best first, until none
    helps (Teitz and Bart, 1968; gains for all pairs at once as in Whitaker, 1983); then the same again and again after
    some random exchanges (iterated local search). At level 1, medians far apart that move to the middle of their
    clusters (Maranzana, 1964)."""
    dist = dist.astype(float)
    if LEVEL == 1:
        return centred(spread(p, dist), dist)
    medians, near = [], np.full(n, dist.max() + 1)
    for _ in range(p):
        cost = np.minimum(dist, near).sum(axis=1)
        cost[medians] = np.inf
        medians.append(int(cost.argmin()))
        near = np.minimum(near, dist[medians[-1]])
    if LEVEL >= 3:
        medians = exchanged(medians, dist)
    rng = np.random.default_rng(1)
    for _ in range(min(ROUNDS, ROUNDS * 200_000 // n**2)):
        moved = rng.permutation(medians).tolist()
        for number in range(min(p, max(2, p // 6))):
            moved[number] = int(rng.choice(np.setdiff1d(np.arange(n), moved)))
        medians = min(medians, exchanged(moved, dist), key=lambda chosen: dist[chosen].min(axis=0).sum())
    return medians


def spread(p, dist):
    """Each next median is the vertex farthest from those chosen so far."""
    medians = [int(dist.sum(axis=1).argmin())]
    while len(medians) < p:
        near = dist[medians].min(axis=0)
        near[medians] = -1
        medians.append(int(near.argmax()))
    return medians


def centred(medians, dist):
    """Each median moved to the middle of the vertices that it serves, until all are."""
    while True:
        owner = dist[medians].argmin(axis=0)
        clusters = [np.flatnonzero(owner == number) for number in range(len(medians))]
        moved = [int(c[dist[np.ix_(c, c)].sum(axis=1).argmin()]) for c in clusters]
        if dist[moved].min(axis=0).sum() >= dist[medians].min(axis=0).sum() - 1e-9:
            return medians
        medians = moved


def exchanged(medians, dist):
    """The medians after the best exchanges, until none helps."""
    medians, everyone = list(medians), np.arange(len(dist))
    while True:
        mine = dist[medians]
        owner = mine.argmin(axis=0)
        near = mine[owner, everyone]
        mine[owner, everyone] = np.inf
        second = np.minimum(mine.min(axis=0), dist.max() + 1)
        gain = np.maximum(near - dist, 0).sum(axis=1)  # of adding a vertex
        spared = np.maximum(second - np.maximum(near, dist), 0)  # by a new median, if the nearest one goes
        loss = np.bincount(owner, second - near, minlength=len(medians))
        change = loss[:, None] - gain - (owner == np.arange(len(medians))[:, None]).astype(float) @ spared.T
        change[:, medians] = np.inf
        number, vertex = divmod(int(change.argmin()), len(dist))
        if change[number, vertex] > -1e-9:
            return medians
        medians[number] = vertex
