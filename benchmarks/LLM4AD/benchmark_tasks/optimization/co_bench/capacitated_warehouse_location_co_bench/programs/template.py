import numpy as np


def solve(
    m: int, n: int, capacities: np.ndarray, fixed_costs: np.ndarray, demands: np.ndarray, costs: np.ndarray
) -> np.ndarray:
    """Opens warehouses, those with the least fixed cost for their capacity first, until they hold the demand; then each
    customer takes from the cheapest that has something left."""
    room = np.zeros(m)
    for site in np.argsort(fixed_costs / capacities, kind="stable").tolist():
        if room.sum() < demands.sum():
            room[site] = capacities[site]
    amounts = np.zeros((n, m))
    for customer in range(n):
        left = float(demands[customer])
        for site in np.argsort(costs[customer], kind="stable").tolist():
            amounts[customer, site] = min(left, room[site])
            room[site] -= amounts[customer, site]
            left -= amounts[customer, site]
    return amounts
