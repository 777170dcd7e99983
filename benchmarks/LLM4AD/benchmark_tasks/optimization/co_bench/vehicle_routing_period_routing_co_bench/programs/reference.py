from math import hypot

LEVEL = 5
ROUNDS = (0, 0, 0, 1, 2, 8)[LEVEL]


def solve(
    depot: tuple[float, float],
    customers: list[dict],
    vehicles_per_day: list[int],
    vehicle_capacity: float,
    period_length: int,
) -> list[list[list[int]]]:
    """Customers come one by one, those with the fewest schedules first, by the schedule and to the places that add
    least length; then each is taken out and put back where it adds least, and tours are turned by 2-opt, until
    nothing gains (after Christofides, Beasley, 1984, and Chao, Golden, Wasil, 1995)."""
    at = [depot, *((c["x"], c["y"]) for c in customers)]
    d = [[hypot(a[0] - b[0], a[1] - b[1]) for b in at] for a in at]
    demand = [0, *(c["demand"] for c in customers)]
    options = [[], *([[k for k, visit in enumerate(s) if visit] for s in c["schedules"]] for c in customers)]
    plan = [[[] for _ in range(count)] for count in vehicles_per_day]
    load = [[0] * count for count in vehicles_per_day]

    def place(node, day):
        """Least length that a visit adds, the tour and the place in it; None where no vehicle has room."""
        best = None
        for k, tour in enumerate(plan[day]):
            if load[day][k] + demand[node] > vehicle_capacity:
                continue
            ring = [0, *tour, 0]
            for p in range(len(tour) + 1):
                added = d[ring[p]][node] + d[node][ring[p + 1]] - d[ring[p]][ring[p + 1]]
                if best is None or added < best[0] - 1e-12:
                    best = added, k, p
        return best

    def put(node):
        best = None
        for schedule in options[node]:
            places = [place(node, day) for day in schedule]
            if None not in places and (best is None or sum(p[0] for p in places) < best[0] - 1e-12):
                best = sum(p[0] for p in places), schedule, places
        if best is None:
            return None
        for day, (_, k, p) in zip(best[1], best[2], strict=True):
            plan[day][k].insert(p, node)
            load[day][k] += demand[node]
        return best[0]

    def take(node):
        """Take all visits of a customer out: the length saved, and how to undo it."""
        saved, places = 0.0, []
        for day, tours in enumerate(plan):
            for k, tour in enumerate(tours):
                if node in tour:
                    p = tour.index(node)
                    ring = [0, *tour, 0]
                    saved += d[ring[p]][node] + d[node][ring[p + 2]] - d[ring[p]][ring[p + 2]]
                    tour.remove(node)
                    load[day][k] -= demand[node]
                    places.append((day, k, p))
        return saved, places

    order = sorted(range(1, len(at)), key=lambda i: (len(options[i]), -demand[i], -d[0][i]))
    for node in order:
        put(node)
    if LEVEL == 2:
        for tours in plan:
            for tour in tours:
                turn(tour, d)
    for _ in range(ROUNDS):
        gained = 0.0
        for node in order:
            saved, places = take(node)
            added = put(node)
            if added is None:
                for day, k, p in places:
                    plan[day][k].insert(p, node)
                    load[day][k] += demand[node]
            else:
                gained += saved - added
        for tours in plan:
            for tour in tours:
                gained += turn(tour, d)
        if gained < 1e-9:
            break
    return plan


def turn(tour, d):
    """2-opt; the length saved."""
    total, again = 0.0, True
    while again:
        again = False
        for i in range(len(tour)):
            for j in range(i + 2, len(tour) + 1):
                before, after = ([0, *tour][i], [*tour, 0][j])
                first, last = tour[i], tour[j - 1]
                gain = d[before][first] + d[last][after] - d[before][last] - d[first][after]
                if gain > 1e-9:
                    tour[i:j] = tour[i:j][::-1]
                    total += gain
                    again = True
    return total
