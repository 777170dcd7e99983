import random
from functools import lru_cache

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 1, 4: 5, 5: 120}[LEVEL]
"""Of slack induction by string removals, for each customer."""
MOST = 12000
REMOVED, LONGEST, HOT, COLD = 10, 10, 0.02, 0.001
INFINITE = float("inf"), 0
PLAN = []


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
) -> int:
    """Follows routes planned at the first call: savings (Clarke, Wright, 1964) for ways back that are free, then
    customers are moved to wherever they cost least until none gains, then search by ruin and recreation."""
    if current_node == depot and len(unvisited_nodes) == len(demands) - 1:
        routes = savings(distance_matrix, demands, rest_capacity)
        if LEVEL >= 2:
            routes = moved(routes, distance_matrix, demands, rest_capacity)
        if LEVEL >= 3:
            d, demands = distance_matrix.tolist(), demands.tolist()
            for row in d:
                row[0] = 0.0
            routes = searched(routes, d, insertion(d, demands, rest_capacity), min(ROUNDS * len(demands), MOST))
        PLAN[:] = [node for route in routes for node in (*route, depot)]
    node = PLAN.pop(0)
    if node == depot and current_node == depot:  # nothing more fitted: the vehicle went home by itself
        node = PLAN.pop(0)
    return node


def savings(d, demands, capacity):
    n = len(demands)
    route_of = {node: [node] for node in range(1, n)}
    pairs = [(d[0, j] - d[i, j], i, j) for i in range(1, n) for j in range(1, n) if i != j]
    for saving, i, j in sorted(pairs, key=lambda p: -p[0]):
        first, second = route_of[i], route_of[j]
        if saving <= 0 or first is second or first[-1] != i or second[0] != j:
            continue
        if demands[first].sum() + demands[second].sum() <= capacity:
            merged = first + second
            route_of |= dict.fromkeys(merged, merged)
    return [route for node, route in route_of.items() if route[0] == node]


def moved(routes, d, demands, capacity):
    again = True
    while again:
        again = False
        for node in range(1, len(demands)):
            home = next(r for r in routes if node in r)
            at = home.index(node)
            before = home[at - 1] if at else 0
            saved = d[before, node]
            if at + 1 < len(home):
                saved += d[node, home[at + 1]] - d[before, home[at + 1]]
            home.pop(at)
            best = (saved - 1e-10, home, at)
            for route in routes:
                if demands[route].sum() + demands[node] <= capacity:
                    for place in range(len(route) + 1):
                        before = route[place - 1] if place else 0
                        cost = d[before, node]
                        if place < len(route):
                            cost += d[node, route[place]] - d[before, route[place]]
                        if cost < best[0]:
                            best = cost, route, place
            best[1].insert(best[2], node)
            again |= best[0] < saved - 1e-10
        routes = [r for r in routes if r]
    return routes


def insertion(d, demands, capacity):
    @lru_cache(1 << 17)
    def cheapest(route, node):
        if demands[node] + sum(demands[i] for i in route) > capacity:
            return INFINITE
        row = d[node]
        found, place, at = float("inf"), 0, 0
        for k, following in enumerate((*route, 0)):
            added = d[at][node] + row[following] - d[at][following]
            if added < found:
                found, place = added, k
            at = following
        return found, place

    return cheapest


def searched(routes, d, cheapest, rounds):
    """Slack induction by string removals (Christiaens, Vanden Berghe, 2020): strings of customers that are near one
    another leave their routes and are inserted anew, where they add least; annealed.

    Args:
        cheapest: what it adds to put a node into a route, and where; infinite if it cannot be.
    """
    rng, n = random.Random(1), len(d)
    near = np.argsort(np.array(d), axis=1, kind="stable").tolist()
    away, d = [d[node][0] + d[0][node] for node in range(n)], list(map(list, d))
    routes = [tuple(route) for route in routes]
    length = best_length = total(routes, d)
    best, heat = routes, HOT
    for _ in range(rounds):
        heat *= (COLD / HOT) ** (1 / rounds)
        kept, absent = ruined(routes, near, rng)
        key = rng.choice((lambda node: rng.random(), lambda node: -away[node], lambda node: away[node]))
        for node in sorted(absent, key=key):
            added, place, number = away[node], 0, -1
            for k, route in enumerate(kept):
                if rng.random() < 0.99:
                    found = cheapest(route, node)
                    if found[0] < added:
                        added, place, number = *found, k
            if number < 0:
                kept.append((node,))
            else:
                kept[number] = (*kept[number][:place], node, *kept[number][place:])
        made = total(kept, d)
        if made < length + heat * rng.expovariate(1.0):
            routes, length = kept, made
            if length < best_length - 1e-9:
                best, best_length = routes, length
    return best


def ruined(routes, near, rng):
    """The routes without some strings of customers near a random one, and those customers."""
    of = {node: number for number, route in enumerate(routes) for node in route}
    longest = min(LONGEST, len(of) / len(routes))
    strings = int(rng.uniform(1, 4 * REMOVED / (1 + longest)))
    routes, absent, done = list(routes), [], set()
    for node in near[rng.choice(list(of))]:
        number = of.get(node)
        if number is None or number in done:
            continue
        route = routes[number]
        size = int(rng.uniform(1, min(len(route), longest) + 1))
        at = route.index(node)
        first = rng.randint(max(0, at - size + 1), min(at, len(route) - size))
        absent += route[first : first + size]
        routes[number] = route[:first] + route[first + size :]
        done.add(number)
        if len(done) >= strings:
            break
    return [route for route in routes if route], absent


def total(routes, d):
    length = 0.0
    for route in routes:
        at = 0
        for node in route:
            length += d[at][node]
            at = node
        length += d[at][0]
    return length
