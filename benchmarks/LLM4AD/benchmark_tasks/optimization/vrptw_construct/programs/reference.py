import random
from functools import lru_cache

import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 1, 4: 5, 5: 80}[LEVEL]
"""Of slack induction by string removals, for each customer."""
MOST = 8000
REMOVED, LONGEST, HOT, COLD = 10, 10, 0.01, 0.001
INFINITE = float("inf"), 0
PLAN = []


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
    """Follows routes planned at the first call: insertion I1 (Solomon, 1987), then customers are moved to wherever
    they add least length until none gains, then search by ruin and recreation."""
    if current_node == depot and len(unvisited_nodes) == len(demands) - 1:
        d, demands, windows, service = (x.tolist() for x in (distance_matrix, demands, time_windows, service_times))
        cheapest = insertion(d, demands, rest_capacity, windows, service)
        routes = inserted(d, cheapest)
        if LEVEL >= 2:
            routes = moved(routes, d, cheapest)
        if LEVEL >= 3:
            routes = searched(routes, d, cheapest, min(ROUNDS * len(demands), MOST))
        PLAN[:] = [node for route in routes for node in (*route, depot)]
    node = PLAN.pop(0)
    if node == depot and current_node == depot:  # nothing more fitted: the vehicle went home by itself
        node = PLAN.pop(0)
    return node


def inserted(d, cheapest):
    """Routes one after the other: each begins with the customer farthest away, and grows by the one that saves most."""
    left, routes = set(range(1, len(d))), []
    while left:
        node = max(left, key=lambda i: (d[0][i], i))
        route = (node,)
        left.remove(node)
        while found := [(2 * d[0][i] - added, i, place) for i in sorted(left)
                        for added, place in [cheapest(route, i)] if added < INFINITE[0]]:  # fmt: skip
            _, node, place = max(found)
            route = (*route[:place], node, *route[place:])
            left.remove(node)
        routes.append(route)
    return routes


def moved(routes, d, cheapest):
    changed = True
    while changed:
        changed = False
        for node in range(1, len(d)):
            home = next(k for k, route in enumerate(routes) if node in route)
            before = total(routes, d)
            route = routes[home]
            rest = tuple(i for i in route if i != node)
            without = [*routes[:home], rest, *routes[home + 1 :]]
            (added, place), number = min((cheapest(route, node), k) for k, route in enumerate(without))
            if total(without, d) + added < before - 1e-9:
                without[number] = (*without[number][:place], node, *without[number][place:])
                routes, changed = [route for route in without if route], True
    return routes


def insertion(d, demands, capacity, windows, service):
    @lru_cache(1 << 17)
    def times(route):
        """When a vehicle leaves the depot and each customer at the earliest, and has to be at each, and back, at the
        latest."""
        at, leaves, latest = 0, [0.0], [windows[0][1]]
        for node in route:
            leaves.append(max(leaves[-1] + d[at][node], windows[node][0]) + service[node])
            at = node
        following = 0
        for node in reversed(route):
            latest.append(min(windows[node][1], latest[-1] - d[node][following] - service[node]))
            following = node
        return leaves, latest[::-1]

    @lru_cache(1 << 17)
    def cheapest(route, node):
        if demands[node] + sum(demands[i] for i in route) > capacity:
            return INFINITE
        (leaves, latest), row = times(route), d[node]
        (opening, closing), takes = windows[node], service[node]
        found, place, at = float("inf"), 0, 0
        for k, following in enumerate((*route, 0)):
            added = d[at][node] + row[following] - d[at][following]
            if added < found:
                start = max(leaves[k] + d[at][node], opening)
                if start <= closing and start + takes + row[following] <= latest[k] - 1e-12:
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
