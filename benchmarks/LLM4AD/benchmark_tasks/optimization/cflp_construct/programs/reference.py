import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 5, 4: 30, 5: 600}[LEVEL]
MOST = 120000
"""Rounds times customers."""
LEAVE, DRAWN = 12, 3
PLAN = []


def select_next_assignment(
    assignments: list[list[int]],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """Follows a plan made at the first call: customers by regret (Martello and Toth, 1981), then moves and swaps of
    customers until none helps; then again and again a few customers of some facilities are assigned anew."""
    if not any(assignments):
        PLAN[:] = planned(assignment_costs.T.astype(float), customer_demands, remaining_capacities).tolist()
    customer = remaining_customers[0]
    return customer, PLAN[customer]


def planned(costs, demands, capacities):
    n, rng = len(costs), np.random.default_rng(1)
    of = by_regret(np.full(n, -1), costs, demands, capacities)
    if LEVEL >= 2:
        of = descent(of, costs, demands, capacities)
    for _ in range(min(ROUNDS, MOST // n)):
        customer = rng.integers(n)
        near = np.argsort(costs[customer])[:DRAWN]
        leave = rng.permutation(np.flatnonzero(np.isin(of, near)))[:LEAVE]
        moved = of.copy()
        moved[leave] = -1
        moved = by_regret(moved, costs * rng.uniform(0.8, 1.2, costs.shape), demands, capacities)
        moved = descent(moved, costs, demands, capacities)
        if total(moved, costs) <= total(of, costs):
            of = moved
    return of


def total(of, costs):
    return costs[np.arange(len(of)), of].sum()


def by_regret(of, costs, demands, capacities):
    """Those without a facility: first the customer for whom the second best one costs most more than the best."""
    room = capacities - np.bincount(of[of >= 0], demands[of >= 0], minlength=len(capacities))
    while (of < 0).any():
        left = np.flatnonzero(of < 0)
        offered = np.where(demands[left, None] <= room, costs[left], 1e9)
        two = np.partition(offered, 1, axis=1)[:, :2] if costs.shape[1] > 1 else np.tile(offered, (1, 2))
        one = int((two[:, 1] - two[:, 0]).argmax())
        of[left[one]] = offered[one].argmin()
        room[of[left[one]]] -= demands[left[one]]
    return of


def descent(of, costs, demands, capacities):
    everyone = np.arange(len(of))
    while True:
        room = capacities - np.bincount(of, demands, minlength=len(capacities))
        change = costs - costs[everyone, of][:, None]
        move = np.where(demands[:, None] <= room, change, 0)
        both = change[:, of]
        fits = demands[None, :] - demands[:, None] <= room[of][:, None]
        swap = np.where(fits & fits.T, both + both.T, 0)
        if min(move.min(), swap.min()) > -1e-9:
            return of
        if move.min() <= swap.min():
            customer, facility = np.unravel_index(move.argmin(), move.shape)
            of[customer] = facility
        else:
            one, other = np.unravel_index(swap.argmin(), swap.shape)
            of[[one, other]] = of[[other, one]]
