import numpy as np


def select_next_assignment(
    current_assignment: list[int], flow_matrix: np.ndarray, distance_matrix: np.ndarray
) -> tuple[int, int]:
    """The next facility to the most central location, even if that is taken."""
    return current_assignment.index(-1), int(distance_matrix.sum(axis=1).argmin())
