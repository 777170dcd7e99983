import numpy as np


def solve(points: np.ndarray) -> np.ndarray:
    """Tries the centroid of each terminal and two of its neighbours in the minimum spanning tree; keeps what helps."""
    length, edges = spanning_tree(points)
    added = np.empty((0, 2))
    for node in range(len(points)):
        neighbours = [a + b - node for a, b in edges if node in (a, b)]
        if len(neighbours) < 2 or len(added) == len(points) - 2:
            continue
        centre = points[[node, *neighbours[:2]]].mean(axis=0)
        tried = np.vstack([added, centre])
        found, _ = spanning_tree(np.vstack([points, tried]))
        if found < length:
            added, length = tried, found
    return added


def spanning_tree(points):
    """Length and edges (Prim)."""
    reach = np.full(len(points), np.inf)
    parent = [0] * len(points)
    outside = set(range(1, len(points)))
    node, length, edges = 0, 0.0, []
    while outside:
        away = np.hypot(*(points - points[node]).T)
        for other in outside:
            if away[other] < reach[other]:
                reach[other], parent[other] = away[other], node
        node = min(outside, key=lambda k: reach[k])
        outside.remove(node)
        length += reach[node]
        edges.append((node, parent[node]))
    return length, edges
