import numpy as np


def select_next_assignment(
    assignments: list[list[int]],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """The facility that is cheapest for all customers together, even when it is full."""
    return remaining_customers[0], int(assignment_costs.sum(axis=1).argmin())
