from itertools import pairwise

import numpy as np

FAR = 2.0
"""Weight of the way from the depot to a customer, which is saved if the vehicle serves it."""


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
    """The next node of a route that is planned to its end at each call: insertion I1 (Solomon, 1987) of the customers
    on offer behind the node where the vehicle stands. At the depot the customer that is farthest away comes first."""
    d, windows, service = distance_matrix, time_windows, service_times
    route, out = [current_node, depot], unvisited_nodes
    seed = int(out[d[depot, out].argmax()]) if current_node == depot else None
    while len(out):
        added, place = insertions(route, out, current_time, d, windows, service)
        added[demands[out] > rest_capacity] = np.inf
        gain = FAR * d[depot, out] - added
        if seed is not None:
            gain[out == seed] = np.inf
        best = int(gain.argmax())
        if seed is None and gain[best] <= 0:
            break
        node, seed = int(out[best]), None
        route.insert(int(place[best]) + 1, node)
        rest_capacity -= int(demands[node])
        out = np.delete(out, best)
    return route[1]


def insertions(route, out, time, d, windows, service):
    """What it adds at least to insert each customer into the route, infinite if it cannot be, and after which place."""
    leaves, latest = [time], [windows[route[-1], 1]]
    for at, node in pairwise(route[:-1]):
        leaves.append(max(leaves[-1] + d[at, node], windows[node, 0]) + service[node])
    for node, following in zip(route[-2:0:-1], route[:1:-1], strict=True):
        latest.append(min(windows[node, 1], latest[-1] - d[node, following] - service[node]))
    before, after = np.array(route[:-1]), np.array(route[1:])
    starts = np.maximum(np.array(leaves)[:, None] + d[before[:, None], out], windows[out, 0])
    fits = starts <= windows[out, 1]
    fits &= starts + service[out] + d[out, after[:, None]] <= np.array(latest[::-1])[:, None] - 1e-12
    added = d[before[:, None], out] + d[out, after[:, None]] - d[before, after][:, None]
    added[~fits] = np.inf
    return added.min(axis=0), added.argmin(axis=0)
