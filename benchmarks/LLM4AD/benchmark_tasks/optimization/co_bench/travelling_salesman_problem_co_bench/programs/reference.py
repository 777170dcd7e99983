import random

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 1, 5: 5}[LEVEL]
"""Of the iterated local search, for each city."""
NEAR, MOST = 8, 30


def solve(nodes: np.ndarray) -> list[int]:
    """Greedy edges (Bentley, 1992), improved by iterated local search."""
    n = len(nodes)
    if n < 5:
        return list(range(n))
    d = np.hypot(nodes[:, 0, None] - nodes[:, 0], nodes[:, 1, None] - nodes[:, 1])
    tour = greedy(d)
    return searched(tour, d, ROUNDS * n) if LEVEL >= 2 else tour


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


def searched(tour, d, rounds):
    """Iterated local search (Martin, Otto, Felten, 1991): two neighbouring chains change places, the tour is improved
    where that was, and what is longer than before is taken back."""
    n, rng = len(tour), random.Random(1)
    near = np.argsort(d, axis=1, kind="stable")[:, 1 : NEAR + 1].tolist()
    d, at = d.tolist(), [0] * n
    number(tour, at, 0, n)
    polished(tour, at, d, near, list(tour))
    for _ in range(rounds if n >= 8 else 0):
        kept, places = tour.copy(), at.copy()
        first = rng.randrange(n)
        tour[:] = tour[first:] + tour[:first]
        one = rng.randint(1, min(MOST, n // 3))
        two = one + rng.randint(1, min(MOST, n // 3))
        ends = [tour[0], tour[one - 1], tour[one], tour[two - 1], tour[two], tour[-1]]
        tour[:two] = tour[one:two] + tour[:one]
        number(tour, at, 0, n)
        a, b, c, e, f, z = ends
        added = d[z][c] + d[e][a] + d[b][f] - d[z][a] - d[b][c] - d[e][f]
        if polished(tour, at, d, near, ends) < added:
            tour[:], at[:] = kept, places
    return tour


def polished(tour, at, d, near, queue):
    """2-opt (Croes, 1958) and moves of chains of up to three cities (Or, 1976) to beside near cities, until none of the
    cities that wait has one that gains. Returns what they saved."""
    waiting, total = set(queue), 0.0
    while queue:
        city = queue.pop()
        waiting.discard(city)
        gain, ends = turned(city, tour, at, d, near)
        if not ends and LEVEL >= 3:
            gain, ends = moved(city, tour, at, d, near)
        total += gain
        for end in ends:
            if end not in waiting:
                waiting.add(end)
                queue.append(end)
    return total


def number(tour, at, first, last):
    for place in range(first, last):
        at[tour[place]] = place


def turned(city, tour, at, d, near):
    """The first 2-opt move that joins a city to a near one and gains: its gain, and the ends of its edges."""
    n, row = len(tour), d[city]
    for way in (1, -1):
        follow = tour[(at[city] + way) % n]
        for other in near[city]:
            if row[other] >= row[follow]:
                break
            beyond = tour[(at[other] + way) % n]
            gain = row[follow] + d[other][beyond] - row[other] - d[follow][beyond]
            if gain > 1e-9:
                i, j = sorted((at[city], at[other]) if way == 1 else (at[follow], at[beyond]))
                if 2 * (j - i) > n:  # turn the other part: the places after j, and those up to i
                    tour[:] = tour[i + 1 :] + tour[: i + 1]
                    i, j = j - i - 1, n - 1
                    number(tour, at, 0, n)
                    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
                else:
                    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
                number(tour, at, i + 1, j + 1)
                return gain, (city, follow, other, beyond)
    return 0.0, ()


def moved(city, tour, at, d, near):
    """The first move of a chain that begins at a city, to beside a near one, that gains: likewise."""
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
                    gain = saved - d[city][other] - d[chain[-1]][beyond] + d[other][beyond]
                    if gain > 1e-9:
                        rest = [c for c in tour if c not in chain]
                        place = rest.index(other) + (side == 1)
                        tour[:] = rest[:place] + (chain if side == 1 else chain[::-1]) + rest[place:]
                        number(tour, at, 0, n)
                        return gain, (before, after, city, chain[-1], other, beyond)
    return 0.0, ()
