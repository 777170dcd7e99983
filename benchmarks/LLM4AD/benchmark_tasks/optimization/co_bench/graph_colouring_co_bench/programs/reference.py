import numpy as np

LEVEL = 5
STEPS = {1: 0, 2: 0, 3: 0, 4: 4000, 5: 60_000}[LEVEL]


def solve(n: int, edges: np.ndarray) -> list[int]:
    """DSATUR (Brelaz, 1979), then iterated greedy (Culberson, 1992): the classes of a proper colouring, in any order,
    give greedy colourings with no more colours. Then one colour less at a time by tabu search that gives nodes with
    conflicts other colours (Hertz and de Werra, 1987)."""
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    if LEVEL == 1:
        return greedy(near, np.argsort(-near.sum(axis=1), kind="stable")).tolist()
    best = dsatur(near)
    if LEVEL >= 3:
        best = iterated(near, best)
    steps, rng = STEPS * min(n, 250) // 250, np.random.default_rng(1)
    while steps > 0 and best.max() > 0:
        fewer, steps = tabu(near, best, steps, rng)
        if fewer is not None:
            best = fewer
    return best.tolist()


def dsatur(near):
    """The node whose neighbours have most colours goes first."""
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


def iterated(near, current):
    best, rng = current, np.random.default_rng(1)
    for turn in range(60):
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
    return best


def greedy(near, order):
    n = len(near)
    colours = np.full(n, -1)
    seen = np.zeros((n, n + 1), dtype=bool)
    for node in order:
        colours[node] = int((~seen[node]).argmax())
        seen[near[node], colours[node]] = True
    return colours


def tabu(near, colours, steps, rng):
    """A proper colouring with a colour less, or None; and the steps that are left."""
    n, k = len(near), int(colours.max())
    colours = np.where(colours == k, rng.integers(k, size=n), colours)
    weights = near.astype(np.int32)
    count = np.stack([weights[:, colours == c].sum(axis=1) for c in range(k)], axis=1)  # neighbours of each colour
    until = np.full((n, k), steps)  # a node may have a colour again once so many steps are left
    clash = count[np.arange(n), colours]
    least = total = int(clash.sum()) // 2
    while steps > 0:
        if total == 0:
            return colours, steps
        nodes = np.flatnonzero(clash)
        change = count[nodes] - clash[nodes][:, None]
        barred = (until[nodes] < steps) & (total + change >= least)
        barred[np.arange(len(nodes)), colours[nodes]] = True
        change = np.where(barred, n, change) + rng.random(change.shape)
        at, colour = divmod(int(change.argmin()), k)
        node, old = nodes[at], colours[nodes[at]]
        total += int(count[node, colour] - count[node, old])
        least = min(least, total)
        count[:, old] -= weights[node]
        count[:, colour] += weights[node]
        colours[node] = colour
        clash = count[np.arange(n), colours]
        steps -= 1
        until[node, old] = steps - int(0.6 * len(nodes) + 10 * rng.random())
    return None, 0
