import random

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 1, 5: 20}[LEVEL]
"""Of the iterated local search, for each city."""
NEAR, MOST = 8, 30
PLAN = []


def select_next_node(
    current_node: int, destination_node: int, unvisited_nodes: np.ndarray, distance_matrix: np.ndarray
) -> int:
    """Follows a tour planned at the first call: farthest insertion (Rosenkrantz, Stearns, Lewis, 1977), improved by
    iterated local search."""
    n = len(distance_matrix)
    if len(PLAN) != n or PLAN[0] != destination_node:
        tour = inserted(distance_matrix, destination_node)
        if LEVEL >= 2 and n >= 5:
            tour = searched(tour, distance_matrix, ROUNDS * n)
        start = tour.index(destination_node)
        PLAN[:] = tour[start:] + tour[:start]
    return int(PLAN[PLAN.index(current_node) + 1])


def inserted(d, start):
    tour, left = [start], [i for i in range(len(d)) if i != start]
    near = d[start].copy()
    while left:
        node = max(left, key=lambda i: near[i])
        left.remove(node)
        order = np.array(tour)
        after = np.roll(order, -1)
        place = int((d[order, node] + d[node, after] - d[order, after]).argmin())
        tour.insert(place + 1, node)
        near = np.minimum(near, d[node])
    return tour


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
