import numpy as np
from scipy.optimize import linear_sum_assignment


def solve(n: int, cost_matrix: np.ndarray) -> list[int]:
    """Shortest augmenting paths (Jonker and Volgenant, 1987; Crouse, 2016): the optimum."""
    return linear_sum_assignment(cost_matrix)[1].tolist()
