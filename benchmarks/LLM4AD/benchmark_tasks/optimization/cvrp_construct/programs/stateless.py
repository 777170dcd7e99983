from itertools import pairwise

import numpy as np

SHAPES = (0.8, 1.0, 1.2, 1.4)


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
) -> int:
    """The next node of routes that are planned anew at each call: savings (Clarke, Wright, 1964) with several route
    shapes (Yellow, 1970), each route improved by 2-opt (Croes, 1958). A vehicle at the depot takes the route that leads
    farthest. The capacity is not known on the way: it is taken to be what would have been enough so far."""
    d, at_home = distance_matrix.tolist(), current_node == depot
    capacity = rest_capacity if at_home else rest_capacity + int(demands[current_node])
    begun = [] if at_home else [current_node]
    plans = []
    for shape in SHAPES:
        routes = planned(distance_matrix, demands, unvisited_nodes.tolist(), capacity, begun, shape)
        plans.append([shorter(route, d, int(route[:1] == begun)) for route in routes])
    plan = min(plans, key=lambda plan: sum(length(route, d) for route in plan))
    if at_home:
        route = max(plan, key=lambda route: max(d[depot][node] for node in route))
        return min(route[0], route[-1], key=d[depot].__getitem__)
    return [*next(route for route in plan if route[:1] == begun), depot][1]


def planned(d, demands, left, capacity, begun, shape):
    """Routes through the customers that are left, one of them with the node where the vehicle stands at its head."""
    route_of = {node: [node] for node in [*begun, *left]}
    load = {node: int(demands[node]) for node in route_of}
    nodes = np.array(list(route_of))
    saved = d[nodes, 0][:, None] + d[0, nodes] - shape * d[np.ix_(nodes, nodes)]
    i, j = np.nonzero(np.triu(saved > 0, 1))
    order = np.argsort(-saved[i, j], kind="stable")
    for a, b in zip(nodes[i[order]].tolist(), nodes[j[order]].tolist(), strict=True):
        one, other = route_of[a], route_of[b]
        total = load[a] + load[b]
        if one is other or total > capacity:
            continue
        if other[:1] == begun:
            one, other, a, b = other, one, b, a
        if one[-1] != a and one[:1] != begun:
            one = one[::-1]
        if other[0] != b:
            other = other[::-1]
        if one[-1] != a or other[0] != b:
            continue
        merged = one + other
        for node in merged:
            route_of[node], load[node] = merged, total
    return list({id(route): route for route in route_of.values()}.values())


def shorter(route, d, first):
    """2-opt within a route, from place `first` on."""
    again = True
    while again:
        again = False
        for i in range(first, len(route)):
            for j in range(i + 2, len(route) + 1):
                before, after = route[i - 1] if i else 0, [*route, 0][j]
                gain = d[before][route[i]] + d[route[j - 1]][after] - d[before][route[j - 1]] - d[route[i]][after]
                if gain > 1e-10:
                    route, again = route[:i] + route[i:j][::-1] + route[j:], True
    return route


def length(route, d):
    return sum(d[a][b] for a, b in pairwise([0, *route, 0]))
