import numpy as np


def select_next_assignment(
    assignments: list[list[int]],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """Customers in the order of their numbers, each to the cheapest facility that has room."""
    customer = remaining_customers[0]
    fits = remaining_capacities >= customer_demands[customer]
    return customer, int(np.where(fits, assignment_costs[:, customer], np.inf).argmin())
