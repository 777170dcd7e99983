import numpy as np


def select_next_assignment(
    assignments: list[list[int]],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """Plans all customers that are left anew at each call, by regret (Martello and Toth, 1981) and then by moves and
    swaps until none helps. The customer whose second choice of the facilities with room would cost most goes first."""
    customers = np.array(remaining_customers)
    costs, demands = assignment_costs[:, customers].T.astype(float), customer_demands[customers]
    of, first = by_regret(costs, demands, remaining_capacities)
    return int(customers[first]), int(descent(of, costs, demands, remaining_capacities)[first])


def by_regret(costs, demands, capacities):
    """The facility of each customer, and the customer that is assigned first."""
    of, room, first = np.full(len(costs), -1), capacities.copy(), None
    while (of < 0).any():
        left = np.flatnonzero(of < 0)
        offered = np.where(demands[left, None] <= room, costs[left], 1e9)
        two = np.partition(offered, 1, axis=1)[:, :2] if costs.shape[1] > 1 else np.tile(offered, (1, 2))
        one = int((two[:, 1] - two[:, 0]).argmax())
        of[left[one]] = offered[one].argmin()
        room[of[left[one]]] -= demands[left[one]]
        first = left[one] if first is None else first
    return of, first


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
