import heapq

import numpy as np

LEVEL = 4
STEPS, FACTORS, WIDTH = (
    (0, (), 0),
    (0, (), 0),
    (20, (1.2, 1.5), 0),
    (200, (1.05, 1.1, 1.2), 0),
    (200, (1.05, 1.1, 1.2), 1500),
)[LEVEL]


def solve(
    n: int,
    m: int,
    K: int,
    lower_bounds: list[float],
    upper_bounds: list[float],
    vertex_resources: list[list[float]],
    graph: dict[int, list[tuple[int, float, list[float]]]],
) -> list[int]:
    """Lagrangian relaxation and a beam of partial paths: prices for the resources from subgradient steps, then, arc by
    arc, those partial paths that have the least bounds by these prices, of those that can keep the limits."""
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

    def fits(total):
        return (total <= room).all() and (total >= need).all()

    best, best_cost = None, float("inf")
    prices, bound, step = np.zeros(K), -float("inf"), 1.0
    chosen = prices
    for _ in range(STEPS):
        reach, leads = to_go(costs + used @ prices)
        arcs = along(leads)
        total = used[arcs].sum(axis=0)
        if fits(total) and costs[arcs].sum() < best_cost:
            best, best_cost = arcs, costs[arcs].sum()
        found = reach[1] - prices @ room
        if found > bound:
            bound, chosen = found, prices
        else:
            step *= 0.97
        aim = best_cost if best is not None else 1.2 * bound + 1
        over = total - room
        if not over.any():
            break
        prices = np.maximum(0, prices + step * max(aim - found, 1e-3) / (over @ over) * over)
        for factor in FACTORS:
            arcs = along(to_go(costs + used @ (factor * prices))[1])
            if fits(used[arcs].sum(axis=0)) and costs[arcs].sum() < best_cost:
                best, best_cost = arcs, costs[arcs].sum()
    for weight in (0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 1e6) if best is None else ():
        arcs = along(to_go(costs + weight * used.sum(axis=1))[1])
        if fits(used[arcs].sum(axis=0)):
            best, best_cost = arcs, costs[arcs].sum()
            break
    if not WIDTH:
        return [1, *(ends[arc] for arc in best)] if best is not None else [1, n]

    def at_vertices(reach):
        return np.array([np.inf, *(reach.get(vertex, np.inf) for vertex in range(1, n + 1))])

    floor = np.array([at_vertices(to_go(column)[0]) for column in used.T]).T
    left = at_vertices(to_go(costs + used @ chosen)[0])
    weights, credit = costs + used @ chosen, float(chosen @ room)
    degree = max(len(arcs) for arcs in out.values())
    leaving = np.full((n + 1, degree), -1)
    for vertex, arcs in out.items():
        leaving[vertex, : len(arcs)] = arcs
    heads = np.array(ends)
    at, length, spent = np.array([1]), np.zeros(1), np.zeros((1, K))
    seen = np.zeros((1, n + 1), dtype=bool)
    seen[0, 1] = True
    history = []
    for _ in range(n):
        arcs = leaving[at]
        parent, place = np.nonzero(arcs >= 0)
        arcs = arcs[parent, place]
        end, after = heads[arcs], spent[parent] + used[arcs]
        key = length[parent] + weights[arcs] + left[end]
        keep = (key < best_cost + credit - 1e-9) & ~seen[parent, end]
        keep &= (after + floor[end] <= room + 1e-9).all(axis=1)
        parent, arcs, end, after, key = parent[keep], arcs[keep], end[keep], after[keep], key[keep]
        if not len(arcs):
            break
        order = np.argsort(key, kind="stable")[:WIDTH]
        parent, arcs, end, after = parent[order], arcs[order], end[order], after[order]
        history.append((parent, arcs))
        for number in np.flatnonzero((end == n) & (after >= need).all(axis=1)).tolist():
            path, row = [], number
            for before, chosen_arcs in reversed(history):
                path.append(int(chosen_arcs[row]))
                row = before[row]
            if costs[path].sum() < best_cost and fits(used[path].sum(axis=0)):
                best, best_cost = path[::-1], costs[path].sum()
        going = end != n
        if not going.any():
            break
        length = length[parent] + weights[arcs]
        seen = seen[parent]
        seen[np.arange(len(end)), end] = True
        at, spent = end, after
    return [1, *(ends[arc] for arc in best)] if best is not None else [1, n]
