import numpy as np

NEAR = 10


def solve(nodes: np.ndarray) -> list[int]:
    """Greedy edges, then 2-opt and moves of chains of up to three cities over lists of near cities (Bentley, 1992)."""
    n = len(nodes)
    d = np.hypot(nodes[:, 0, None] - nodes[:, 0], nodes[:, 1, None] - nodes[:, 1])
    if n < 5:
        return list(range(n))
    near = np.argsort(d, axis=1, kind="stable")[:, 1 : NEAR + 1].tolist()
    tour, d = greedy(d), d.tolist()
    at = [0] * n
    for place, city in enumerate(tour):
        at[city] = place
    queue = list(range(n))
    waiting = [True] * n
    while queue:
        city = queue.pop()
        waiting[city] = False
        ends = turned(city, tour, at, d, near) or moved(city, tour, at, d, near)
        for end in ends or ():
            if not waiting[end]:
                waiting[end] = True
                queue.append(end)
    return tour


def greedy(d):
    """The shortest edges that leave every city with at most two, and close no circle before the last."""
    n = len(d)
    upper = np.triu_indices(n, 1)
    group, links, made = list(range(n)), [[] for _ in range(n)], 0
    for k in np.argsort(d[upper], kind="stable").tolist():
        i, j = int(upper[0][k]), int(upper[1][k])
        if len(links[i]) == 2 or len(links[j]) == 2:
            continue
        a, b = root(group, i), root(group, j)
        if a == b:
            continue
        group[a] = b
        links[i].append(j)
        links[j].append(i)
        made += 1
        if made == n - 1:
            break
    city = next(i for i in range(n) if len(links[i]) == 1)
    tour, before = [city], -1
    while len(tour) < n:
        city, before = next(k for k in links[city] if k != before), city
        tour.append(city)
    return tour


def root(group, i):
    while group[i] != i:
        group[i] = group[group[i]]
        i = group[i]
    return i


def turned(city, tour, at, d, near):
    """The first 2-opt move at a city that shortens the tour."""
    n = len(tour)
    for way in (1, -1):
        follow = tour[(at[city] + way) % n]
        for other in near[city]:
            if d[city][other] >= d[city][follow]:
                break
            beyond = tour[(at[other] + way) % n]
            if d[city][follow] + d[other][beyond] - d[city][other] - d[follow][beyond] > 1e-10:
                first, last = (follow, other) if way == 1 else (other, follow)
                reverse(tour, at, first, last)
                return city, follow, other, beyond
    return None


def reverse(tour, at, first, last):
    n, i, j = len(tour), at[first], at[last]
    count = (j - i) % n + 1
    if 2 * count > n:
        i, j, count = (j + 1) % n, (i - 1) % n, n - count
    for _ in range(count // 2):
        tour[i], tour[j] = tour[j], tour[i]
        at[tour[i]], at[tour[j]] = i, j
        i, j = (i + 1) % n, (j - 1) % n


def moved(city, tour, at, d, near):
    """The first move of a chain that begins or ends at a city, to beside a near one, that shortens the tour."""
    n = len(tour)
    for size in (1, 2, 3):
        for way in (1, -1):
            chain = [tour[(at[city] + way * k) % n] for k in range(size)]
            before, after = tour[(at[city] - way) % n], tour[(at[city] + way * size) % n]
            saved = d[before][city] + d[chain[-1]][after] - d[before][after]
            for other in near[city]:
                if d[city][other] >= saved:
                    break
                if other in chain:
                    continue
                for side in (1, -1):
                    beyond = tour[(at[other] + side) % n]
                    if beyond in chain:
                        continue
                    if saved - d[city][other] - d[chain[-1]][beyond] + d[other][beyond] > 1e-10:
                        rest = [c for c in tour if c not in chain]
                        place = rest.index(other)
                        part, where = (chain, place + 1) if side == 1 else (chain[::-1], place)
                        tour[:] = rest[:where] + part + rest[where:]
                        for k, c in enumerate(tour):
                            at[c] = k
                        return before, after, city, chain[-1], other, beyond
    return None
