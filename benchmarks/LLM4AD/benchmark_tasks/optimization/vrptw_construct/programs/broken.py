import numpy as np


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    current_time: float,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
    time_windows: np.ndarray,
    service_times: np.ndarray,
) -> int:
    """The nearest of all customers, visited or not: the vehicle goes back and forth between two."""
    row = distance_matrix[current_node].copy()
    row[[current_node, depot]] = np.inf
    return int(row.argmin())
