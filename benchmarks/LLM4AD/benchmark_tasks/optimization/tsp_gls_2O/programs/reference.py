import numpy as np

LEVEL = 5
SHARE = (0, 0.14, 0.18, 0.2, 0.25, 0.5)[LEVEL]
"""Of the mean edge that a penalty adds."""
PENALTIES = []


def update_edge_distance(edge_distance: np.ndarray, local_opt_tour: np.ndarray, edge_n_used: np.ndarray) -> np.ndarray:
    """Guided local search (Voudouris, Tsang, 1999): the two edges of the tour with the greatest distance / (1 +
    penalty) are penalised once more; each penalty adds the mean edge of the first tour to a distance."""
    tour, following = local_opt_tour, np.roll(local_opt_tour, -1)
    if not edge_n_used.any():
        PENALTIES[:] = [np.zeros_like(edge_distance), edge_distance[tour, following].mean()]
    penalties, weight = PENALTIES
    utility = edge_distance[tour, following] / (1 + penalties[tour, following])
    for k in np.argsort(-utility, kind="stable")[:2]:
        penalties[tour[k], following[k]] += 1
        penalties[following[k], tour[k]] += 1
    return edge_distance + SHARE * weight * penalties
