import numpy as np

PLAN = []


def select_next_assignment(
    assignments: list[int],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """Follows a plan made at the first call: customers by regret (Martello and Toth, 1981), then moves and swaps of
    customers until none helps, from several starts."""
    if all(facility < 0 for facility in assignments):
        PLAN[:] = planned(assignment_costs.astype(float), customer_demands, remaining_capacities)
    customer = remaining_customers[0]
    return customer, PLAN[customer]


def planned(costs, demands, capacities):
    rng = np.random.default_rng(1)
    best = None
    for turn in range(25):
        blurred = costs * rng.uniform(0.8, 1.2, costs.shape) if turn else costs
        of = by_regret(blurred, demands, capacities)
        if of is not None:
            of = descent(of, costs, demands, capacities)
            if best is None or total(of, costs) < total(best, costs):
                best = of
    return best.tolist()


def total(of, costs):
    return costs[np.arange(len(of)), of].sum()


def by_regret(costs, demands, capacities):
    n = len(costs)
    room, left, of = capacities.copy(), np.ones(n, dtype=bool), np.zeros(n, dtype=int)
    for _ in range(n):
        open_costs = np.where(demands[:, None] <= room, costs, 1e9)
        two = np.partition(open_costs, 1, axis=1)[:, :2] if costs.shape[1] > 1 else np.tile(open_costs, (1, 2))
        customer = int(np.where(left, two[:, 1] - two[:, 0], -1).argmax())
        of[customer] = open_costs[customer].argmin()
        if open_costs[customer, of[customer]] == 1e9:
            return None
        room[of[customer]] -= demands[customer]
        left[customer] = False
    return of


def descent(of, costs, demands, capacities):
    of, all_of_them = of.copy(), np.arange(len(of))
    while True:
        room = capacities - np.bincount(of, demands, minlength=len(capacities))
        paid = costs[all_of_them, of]
        move = np.where(demands[:, None] <= room, costs - paid[:, None], 0)
        fits = demands[None, :] - demands[:, None] <= room[of][:, None]
        change = costs[:, of].T - paid[:, None]
        swap = np.where(fits & fits.T, change + change.T, 0)
        if min(move.min(), swap.min()) > -1e-9:
            return of
        if move.min() <= swap.min():
            customer, facility = np.unravel_index(move.argmin(), move.shape)
            of[customer] = facility
        else:
            one, other = np.unravel_index(swap.argmin(), swap.shape)
            of[[one, other]] = of[[other, one]]
