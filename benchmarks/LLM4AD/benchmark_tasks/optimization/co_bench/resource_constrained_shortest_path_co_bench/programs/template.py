import heapq
from itertools import pairwise


def solve(
    n: int,
    m: int,
    K: int,
    lower_bounds: list[float],
    upper_bounds: list[float],
    vertex_resources: list[list[float]],
    graph: dict[int, list[tuple[int, float, list[float]]]],
) -> list[int]:
    """Shortest paths by cost plus a weight times all resources, for greater and greater weights, until one keeps the
    limits."""
    for weight in (0.0, 0.1, 0.3, 1.0, 3.0, 1e6):
        path = shortest(n, graph, vertex_resources, weight)
        used = [sum(vertex_resources[v - 1][k] for v in path) for k in range(K)]
        for a, b in pairwise(path):
            resources = next(r for end, _, r in graph[a] if end == b)
            used = [u + r for u, r in zip(used, resources, strict=True)]
        if all(low <= u <= high for low, u, high in zip(lower_bounds, used, upper_bounds, strict=True)):
            break
    return path


def shortest(n, graph, vertex_resources, weight):
    """Dijkstra's algorithm."""
    reach, came, done = {1: 0.0}, {}, set()
    heap = [(0.0, 1)]
    while heap:
        length, vertex = heapq.heappop(heap)
        if vertex in done:
            continue
        done.add(vertex)
        for end, cost, resources in graph[vertex]:
            further = length + cost + weight * (sum(resources) + sum(vertex_resources[end - 1]))
            if further < reach.get(end, float("inf")):
                reach[end], came[end] = further, vertex
                heapq.heappush(heap, (further, end))
    path = [n]
    while path[-1] != 1:
        path.append(came[path[-1]])
    return path[::-1]
