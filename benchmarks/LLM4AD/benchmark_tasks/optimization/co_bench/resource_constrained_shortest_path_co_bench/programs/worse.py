import heapq


def solve(
    n: int,
    m: int,
    K: int,
    lower_bounds: list[float],
    upper_bounds: list[float],
    vertex_resources: list[list[float]],
    graph: dict[int, list[tuple[int, float, list[float]]]],
) -> list[int]:
    """The path that consumes least of all resources together, whatever it costs."""
    best = {1: 0.0}
    came = {}
    heap = [(0.0, 1)]
    while heap:
        length, vertex = heapq.heappop(heap)
        if length > best[vertex]:
            continue
        for end, cost, resources in graph[vertex]:
            further = length + sum(resources) + sum(vertex_resources[end - 1]) + 1e-6 * cost
            if further < best.get(end, float("inf")):
                best[end], came[end] = further, vertex
                heapq.heappush(heap, (further, end))
    path = [n]
    while path[-1] != 1:
        path.append(came[path[-1]])
    return path[::-1]
