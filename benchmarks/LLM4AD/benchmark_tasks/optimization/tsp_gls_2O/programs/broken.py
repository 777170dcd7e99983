import numpy as np


def update_edge_distance(edge_distance: np.ndarray, local_opt_tour: np.ndarray, edge_n_used: np.ndarray) -> np.ndarray:
    """New lengths of the edges of the tour, where a whole matrix is due."""
    following = np.roll(local_opt_tour, -1)
    return edge_distance[local_opt_tour, following] * (1 + edge_n_used[local_opt_tour, following])
