import numpy as np

PLAN = []


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
) -> int:
    """Follows routes planned at the first call: savings (Clarke, Wright, 1964) for ways back that are free, then
    customers are moved to wherever they cost least until none gains."""
    if current_node == depot and len(unvisited_nodes) == len(demands) - 1:
        PLAN[:] = [node for route in planned(distance_matrix, demands, rest_capacity) for node in (*route, depot)]
    node = PLAN.pop(0)
    if node == depot and current_node == depot:  # nothing more fitted: the vehicle went home by itself
        node = PLAN.pop(0)
    return node


def planned(d, demands, capacity):
    n = len(demands)
    routes = [[node] for node in range(1, n)]
    while True:  # append one route to the end of another: its leg from the depot is saved
        best = None
        loads = [demands[r].sum() for r in routes]
        for a, first in enumerate(routes):
            for b, second in enumerate(routes):
                if a != b and loads[a] + loads[b] <= capacity:
                    for head in (first, first[::-1]):
                        for tail in (second, second[::-1]):
                            turned = d[0, first[0]] - d[0, head[0]] + d[0, second[0]] - d[head[-1], tail[0]]
                            if turned > 1e-10 and (best is None or turned > best[0]):
                                best = turned, a, b, head + tail
        if best is None:
            return moved(routes, d, demands, capacity)
        _, a, b, merged = best
        routes = [r for k, r in enumerate(routes) if k not in (a, b)] + [merged]


def moved(routes, d, demands, capacity):
    again = True
    while again:
        again = False
        for node in range(1, len(demands)):
            home = next(r for r in routes if node in r)
            at = home.index(node)
            before = home[at - 1] if at else 0
            saved = d[before, node]
            if at + 1 < len(home):
                saved += d[node, home[at + 1]] - d[before, home[at + 1]]
            home.pop(at)
            best = (saved - 1e-10, home, at)
            for route in routes:
                if demands[route].sum() + demands[node] <= capacity:
                    for place in range(len(route) + 1):
                        before = route[place - 1] if place else 0
                        cost = d[before, node]
                        if place < len(route):
                            cost += d[node, route[place]] - d[before, route[place]]
                        if cost < best[0]:
                            best = cost, route, place
            best[1].insert(best[2], node)
            again |= best[0] < saved - 1e-10
        routes = [r for r in routes if r]
    return routes
