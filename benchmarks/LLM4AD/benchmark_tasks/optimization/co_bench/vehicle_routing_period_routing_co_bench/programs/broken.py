def solve(
    depot: tuple[float, float],
    customers: list[dict],
    vehicles_per_day: list[int],
    vehicle_capacity: float,
    period_length: int,
) -> list[list[list[int]]]:
    """Every customer on each day, whatever the schedules are."""
    plan = []
    for _ in range(period_length):
        tours, left = [[]], vehicle_capacity
        for customer in customers:
            if customer["demand"] > left:
                tours.append([])
                left = vehicle_capacity
            tours[-1].append(customer["id"])
            left -= customer["demand"]
        plan.append(tours)
    return plan
