import numpy as np

PLAN = []


def select_next_node(
    current_node: int, destination_node: int, unvisited_nodes: np.ndarray, distance_matrix: np.ndarray
) -> int:
    """Follows a tour planned at the first call: farthest insertion (Rosenkrantz, Stearns, Lewis, 1977), improved by
    2-opt (Croes, 1958) and by moving chains of up to three cities (Or, 1976) until neither helps."""
    if len(PLAN) != len(distance_matrix) or PLAN[0] != destination_node:
        PLAN[:] = improved(inserted(distance_matrix, destination_node), distance_matrix)
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


def improved(tour, d):
    better = True
    while better:
        tour, turned = two_opt(tour, d)
        tour, moved = or_opt(tour, d)
        better = turned or moved
    return tour


def two_opt(tour, d):
    n, changed, again = len(tour), False, True
    while again:
        again = False
        order = np.array([*tour, tour[0]])
        step = d[order[:-1], order[1:]]
        for i in range(n - 2):
            gain = step[i] + step[i + 2 :] - d[order[i], order[i + 2 : n]] - d[order[i + 1], order[i + 3 :]]
            best = int(gain.argmax())
            if gain[best] > 1e-10:
                j = i + 2 + best
                tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
                changed = again = True
                break
    return tour, changed


def or_opt(tour, d):
    n = len(tour)
    for size in (3, 2, 1):
        for i in range(1, n - size):
            chain, rest = tour[i : i + size], tour[:i] + tour[i + size :]
            following = tour[(i + size) % n]
            saved = d[tour[i - 1], chain[0]] + d[chain[-1], following] - d[tour[i - 1], following]
            order = np.array(rest)
            after = np.roll(order, -1)
            for part in (chain, chain[::-1]):
                cost = d[order, part[0]] + d[part[-1], after] - d[order, after]
                place = int(cost.argmin())
                if saved - cost[place] > 1e-10:
                    return rest[: place + 1] + part + rest[place + 1 :], True
    return tour, False
