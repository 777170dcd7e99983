from itertools import pairwise

import numpy as np

PLAN = []


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    current_time: float,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
    time_windows: np.ndarray,
    service_times: np.ndarray,
) -> int:
    """Follows routes planned at the first call: insertion I1 (Solomon, 1987), then customers are moved to wherever
    they add least length until none gains."""
    if current_node == depot and len(unvisited_nodes) == len(demands) - 1:
        routes = planned(distance_matrix, demands, rest_capacity, time_windows, service_times)
        PLAN[:] = [node for route in routes for node in (*route, depot)]
    node = PLAN.pop(0)
    if node == depot and current_node == depot:  # nothing more fitted: the vehicle went home by itself
        node = PLAN.pop(0)
    return node


def planned(d, demands, capacity, windows, service):
    def in_time(route):
        at, time = 0, 0.0
        for node in (*route, 0):
            start = max(time + d[at][node], windows[node][0])
            if start > windows[node][1]:
                return False
            at, time = node, start + service[node]
        return True

    def places(route, node, load):
        """Added length and place of each way to insert a node that keeps the route feasible, the cheapest first."""
        if load + demands[node] > capacity:
            return
        ring = [0, *route, 0]
        added = [d[a][node] + d[node][b] - d[a][b] for a, b in pairwise(ring)]
        for place in sorted(range(len(added)), key=added.__getitem__):
            if in_time([*route[:place], node, *route[place:]]):
                yield added[place], place
                return

    d, demands, windows, service = (x.tolist() for x in (d, demands, windows, service))
    left, routes = set(range(1, len(demands))), []
    while left:
        seed = max(left, key=lambda node: (d[0][node], node))
        route, load = [seed], demands[seed]
        left.remove(seed)
        while True:
            found = [(2 * d[0][node] - added, node, place) for node in sorted(left)
                     for added, place in places(route, node, load)]  # fmt: skip
            if not found:
                break
            _, node, place = max(found)
            route.insert(place, node)
            load += demands[node]
            left.remove(node)
        routes.append(route)
    for _ in range(6):
        changed = False
        for node in range(1, len(demands)):
            home = next(r for r in routes if node in r)
            at = home.index(node)
            ring = [0, *home, 0]
            saved = d[ring[at]][node] + d[node][ring[at + 2]] - d[ring[at]][ring[at + 2]]
            home.pop(at)
            best, there, where = saved - 1e-10, home, at
            for route in routes:
                for added, place in places(route, node, sum(demands[i] for i in route)):
                    if added < best:
                        best, there, where = added, route, place
            there.insert(where, node)
            changed |= best < saved - 1e-10
        routes = [r for r in routes if r]
        if not changed:
            break
    return routes
