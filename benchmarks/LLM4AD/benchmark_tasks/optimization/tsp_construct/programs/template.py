import numpy as np


def select_next_node(
    current_node: int, destination_node: int, unvisited_nodes: np.ndarray, distance_matrix: np.ndarray
) -> int:
    """Nearest neighbour: the unvisited city closest to where the tour stands."""
    return int(unvisited_nodes[distance_matrix[current_node][unvisited_nodes].argmin()])
