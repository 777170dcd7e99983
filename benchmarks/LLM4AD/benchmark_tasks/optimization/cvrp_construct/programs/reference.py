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
    """Follows routes planned at the first call: savings (Clarke, Wright, 1964), each route then improved by 2-opt
    (Croes, 1958)."""
    if current_node == depot and len(unvisited_nodes) == len(demands) - 1:
        PLAN[:] = [node for route in planned(distance_matrix, demands, rest_capacity) for node in (*route, depot)]
    node = PLAN.pop(0)
    if node == depot and current_node == depot:  # nothing more fitted: the vehicle went home by itself
        node = PLAN.pop(0)
    return node


def planned(d, demands, capacity):
    n = len(demands)
    route_of = {node: [node] for node in range(1, n)}
    load = {node: demands[node] for node in range(1, n)}
    pairs = [(d[i, 0] + d[0, j] - d[i, j], i, j) for i in range(1, n) for j in range(i + 1, n)]
    for saving, i, j in sorted(pairs, key=lambda p: -p[0]):
        a, b = route_of[i], route_of[j]
        total = load[a[0]] + load[b[0]]
        if saving <= 0 or a is b or total > capacity:
            continue
        if a[0] == i:
            a = a[::-1]
        if b[-1] == j:
            b = b[::-1]
        if a[-1] != i or b[0] != j:
            continue
        merged = a + b
        for node in merged:
            route_of[node] = merged
            load[node] = total
    routes = []
    for node in range(1, n):
        if route_of[node] not in routes:
            routes.append(route_of[node])
    return [shorter(route, d) for route in routes]


def shorter(route, d):
    """2-opt (Croes, 1958) within a route."""
    again = True
    while again:
        again = False
        for i in range(len(route)):
            for j in range(i + 2, len(route) + 1):
                before = 0 if i == 0 else route[i - 1]
                after = 0 if j == len(route) else route[j]
                gain = d[before, route[i]] + d[route[j - 1], after] - d[before, route[j - 1]] - d[route[i], after]
                if gain > 1e-10:
                    route = route[:i] + route[i:j][::-1] + route[j:]
                    again = True
    return route
