import numpy as np


def select_next_node(
    current_node: int,
    depot: int,
    unvisited_nodes: np.ndarray,
    rest_capacity: int,
    demands: np.ndarray,
    distance_matrix: np.ndarray,
) -> int:
    """The customers in the order of their numbers, which says nothing about where they lie."""
    return int(unvisited_nodes[0])
