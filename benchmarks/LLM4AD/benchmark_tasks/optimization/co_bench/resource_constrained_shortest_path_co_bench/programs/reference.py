import heapq

import numpy as np

LEVEL = 4
STEPS, LABELS = ((0, 0), (4, 0), (60, 0), (60, 40), (60, 30_000))[LEVEL]


def solve(
    n: int,
    m: int,
    K: int,
    lower_bounds: list[float],
    upper_bounds: list[float],
    vertex_resources: list[list[float]],
    graph: dict[int, list[tuple[int, float, list[float]]]],
) -> list[int]:
    """Lagrangian relaxation and enumeration (Carlyle, Royset, Wood, 2008): prices for the resources from subgradient
    steps, then partial paths in the order of the bounds that these prices give, without those that cannot keep the
    limits."""
    starts, ends, costs, used = [], [], [], []
    for start, arcs in graph.items():
        for end, cost, resources in arcs:
            starts.append(start)
            ends.append(end)
            costs.append(cost)
            used.append([r + v for r, v in zip(resources, vertex_resources[end - 1], strict=True)])
    costs, used = np.array(costs), np.array(used)
    into = {vertex: [] for vertex in graph}
    out = {vertex: [] for vertex in graph}
    for arc, (start, end) in enumerate(zip(starts, ends, strict=True)):
        out[start].append(arc)
        into[end].append(arc)
    room = np.array(upper_bounds) - np.array(vertex_resources[0])
    need = np.array(lower_bounds) - np.array(vertex_resources[0])

    def to_go(weights):
        """Least weight from each vertex to the last, and the arc that it begins with."""
        reach, leads, heap = {n: 0.0}, {}, [(0.0, n)]
        weights = weights.tolist()
        while heap:
            length, vertex = heapq.heappop(heap)
            if length > reach[vertex]:
                continue
            for arc in into[vertex]:
                further, start = length + weights[arc], starts[arc]
                if further < reach.get(start, float("inf")):
                    reach[start], leads[start] = further, arc
                    heapq.heappush(heap, (further, start))
        return reach, leads

    def along(leads):
        vertex, arcs = 1, []
        while vertex != n:
            arcs.append(leads[vertex])
            vertex = ends[arcs[-1]]
        return arcs

    best, best_cost = None, float("inf")
    prices, bound, step = np.zeros(K), -float("inf"), 1.0
    chosen = prices
    for _ in range(STEPS):
        reach, leads = to_go(costs + used @ prices)
        arcs = along(leads)
        total = used[arcs].sum(axis=0)
        if (total <= room).all() and (total >= need).all() and costs[arcs].sum() < best_cost:
            best, best_cost = arcs, costs[arcs].sum()
        found = reach[1] - prices @ room
        if found > bound:
            bound, chosen = found, prices
        else:
            step *= 0.9
        aim = best_cost if best is not None else 1.2 * bound + 1
        over = total - room
        if not over.any():
            break
        prices = np.maximum(0, prices + step * max(aim - found, 1e-3) / (over @ over) * over)
    for weight in (0.1, 0.3, 1.0, 3.0, 1e6) if best is None else ():
        arcs = along(to_go(costs + weight * used.sum(axis=1))[1])
        total = used[arcs].sum(axis=0)
        if (total <= room).all() and (total >= need).all():
            best, best_cost = arcs, costs[arcs].sum()
            break
    floor = [to_go(column)[0] for column in used.T]
    reach, _ = to_go(costs + used @ chosen)
    weights = (costs + used @ chosen).tolist()
    consumed, limit = used.tolist(), room.tolist()
    most = best_cost + float(chosen @ room)
    heap, count = [(reach[1], 0, 1, 0.0, [0.0] * K, ())], 0
    while heap and count < LABELS:
        key, _, vertex, length, spent, arcs = heapq.heappop(heap)
        if key >= most - 1e-9:
            break
        if vertex == n:
            total = costs[list(arcs)].sum()
            if total < best_cost and all(s >= low for s, low in zip(spent, need, strict=True)):
                best, best_cost = list(arcs), total
                most = best_cost + float(chosen @ room)
            continue
        for arc in out[vertex]:
            end = ends[arc]
            if end not in reach or length + weights[arc] + reach[end] >= most:
                continue
            after = [s + c for s, c in zip(spent, consumed[arc], strict=True)]
            if any(a + f[end] > top for a, f, top in zip(after, floor, limit, strict=True)):
                continue
            if end == 1 or any(ends[old] == end for old in arcs):
                continue
            count += 1
            further = length + weights[arc]
            heapq.heappush(heap, (further + reach[end], count, end, further, after, (*arcs, arc)))
    return [1, *(ends[arc] for arc in best)] if best is not None else [1, n]
