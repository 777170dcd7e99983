import numpy as np


def solve(
    n: int, m: int, q: int, c: np.ndarray, a_leq: np.ndarray, b_leq: np.ndarray, a_geq: np.ndarray, b_geq: np.ndarray
) -> list[int]:
    """Takes demands for capacities: the best items while all sums stay below the right-hand sides."""
    rows, limits = np.vstack([a_leq, a_geq]), np.concatenate([b_leq, b_geq])
    choice = np.zeros(n, dtype=int)
    for j in np.argsort(-c, kind="stable"):
        choice[j] = 1
        if (rows @ choice >= limits).any():
            choice[j] = 0
    return choice.tolist()
