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
    """The next node of routes that are planned anew at each call: savings (Clarke, Wright, 1964) for ways back that are
    free, with several route shapes (Yellow, 1970). A vehicle at the depot takes the route that leads farthest. The
    capacity is not known on the way: it is taken to be what would have been enough so far."""
    d, at_home = distance_matrix.tolist(), current_node == depot
    capacity = rest_capacity if at_home else rest_capacity + int(demands[current_node])
    begun = [] if at_home else [current_node]
    plans = [planned(distance_matrix, demands, unvisited_nodes.tolist(), capacity, begun, shape) for shape in SHAPES]
    plan = min(plans, key=lambda plan: sum(d[a][b] for route in plan for a, b in pairwise([0, *route])))
    if at_home:
        return max(plan, key=lambda route: max(d[depot][node] for node in route))[0]
    return [*next(route for route in plan if route[:1] == begun), depot][1]


def planned(d, demands, left, capacity, begun, shape):
    """Routes through the customers that are left, one of them with the node where the vehicle stands at its head."""
    route_of = {node: [node] for node in [*begun, *left]}
    load = {node: int(demands[node]) for node in route_of}
    nodes = np.array(list(route_of))
    saved = d[0, nodes] - shape * d[np.ix_(nodes, nodes)]
    saved[:, : len(begun)] = 0.0
    np.fill_diagonal(saved, 0.0)
    i, j = np.nonzero(saved > 0)
    order = np.argsort(-saved[i, j], kind="stable")
    for a, b in zip(nodes[i[order]].tolist(), nodes[j[order]].tolist(), strict=True):
        one, other = route_of[a], route_of[b]
        total = load[a] + load[b]
        if one is other or total > capacity or one[-1] != a or other[0] != b:
            continue
        merged = one + other
        for node in merged:
            route_of[node], load[node] = merged, total
    return list({id(route): route for route in route_of.values()}.values())
