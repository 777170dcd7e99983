import numpy as np


def select_next_assignment(
    assignments: list[list[int]],
    remaining_customers: list[int],
    remaining_capacities: np.ndarray,
    customer_demands: np.ndarray,
    assignment_costs: np.ndarray,
) -> tuple[int, int]:
    """The next customer to the facility with the most room, however far."""
    return remaining_customers[0], int(remaining_capacities.argmax())
