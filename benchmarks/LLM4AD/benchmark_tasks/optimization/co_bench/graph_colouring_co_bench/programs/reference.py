import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """DSATUR (Brelaz, 1979), then iterated greedy (Culberson, 1992): the classes of a proper colouring, in any order,
    give greedy colourings with no more colours."""
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    best = dsatur(near)
    rng = np.random.default_rng(1)
    current = best
    for turn in range(150):
        classes = [np.flatnonzero(current == c) for c in range(current.max() + 1)]
        if turn % 3 == 0:
            classes.reverse()
        elif turn % 3 == 1:
            classes.sort(key=len, reverse=True)
        else:
            classes = [classes[i] for i in rng.permutation(len(classes))]
        current = greedy(near, np.concatenate(classes))
        if current.max() < best.max():
            best = current
    return best.tolist()


def dsatur(near):
    n = len(near)
    colours = np.full(n, -1)
    seen = np.zeros((n, n + 1), dtype=bool)
    degree = near.sum(axis=1)
    for _ in range(n):
        rank = seen.sum(axis=1) * (n + 1) + degree
        rank[colours >= 0] = -1
        node = int(rank.argmax())
        colours[node] = int((~seen[node]).argmax())
        seen[near[node], colours[node]] = True
    return colours


def greedy(near, order):
    n = len(near)
    colours = np.full(n, -1)
    seen = np.zeros((n, n + 1), dtype=bool)
    for node in order:
        colours[node] = int((~seen[node]).argmax())
        seen[near[node], colours[node]] = True
    return colours
