def solve(
    depot: tuple[float, float],
    customers: list[dict],
    vehicles_per_day: list[int],
    vehicle_capacity: float,
    period_length: int,
) -> list[list[list[int]]]:
    """Loads are spread over the days, then over vehicles by first fit; wherever customers are, tours visit them in the
    order in which they came."""
    loads = [0] * period_length
    plan = [[] for _ in range(period_length)]
    room = [[] for _ in range(period_length)]
    for customer in sorted(customers, key=lambda c: -c["demand"]):
        options = [[day for day, visit in enumerate(schedule) if visit] for schedule in customer["schedules"]]
        chosen = min(options, key=lambda days: (max(loads[day] for day in days), days))
        for day in chosen:
            loads[day] += customer["demand"]
            tour = next((k for k, left in enumerate(room[day]) if left >= customer["demand"]), len(plan[day]))
            if tour == len(plan[day]):
                plan[day].append([])
                room[day].append(vehicle_capacity)
            plan[day][tour].append(customer["id"])
            room[day][tour] -= customer["demand"]
    return plan
