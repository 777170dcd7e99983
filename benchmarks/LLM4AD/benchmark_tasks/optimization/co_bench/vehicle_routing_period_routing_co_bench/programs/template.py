from math import hypot


def solve(
    depot: tuple[float, float],
    customers: list[dict],
    vehicles_per_day: list[int],
    vehicle_capacity: float,
    period_length: int,
) -> list[list[list[int]]]:
    """Loads are spread over the days, then over vehicles by first fit, both in the order of falling demands; each
    tour goes to the nearest customer left."""
    loads = [0] * period_length
    days = [[] for _ in range(period_length)]
    for customer in sorted(customers, key=lambda c: -c["demand"]):
        options = [[day for day, visit in enumerate(schedule) if visit] for schedule in customer["schedules"]]
        chosen = min(options, key=lambda days: (max(loads[day] for day in days), days))
        for day in chosen:
            loads[day] += customer["demand"]
            days[day].append(customer)
    return [[nearest_first(tour, depot) for tour in first_fit(day, vehicle_capacity)] for day in days]


def first_fit(visits, capacity):
    tours, loads = [], []
    for customer in visits:
        for k, load in enumerate(loads):
            if load + customer["demand"] <= capacity:
                tours[k].append(customer)
                loads[k] += customer["demand"]
                break
        else:
            tours.append([customer])
            loads.append(customer["demand"])
    return tours


def nearest_first(tour, depot):
    at, left, order = depot, list(tour), []
    while left:
        customer = min(left, key=lambda c: hypot(c["x"] - at[0], c["y"] - at[1]))
        left.remove(customer)
        order.append(customer["id"])
        at = customer["x"], customer["y"]
    return order
