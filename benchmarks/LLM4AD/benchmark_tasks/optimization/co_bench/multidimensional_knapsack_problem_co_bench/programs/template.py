import numpy as np


def solve(n: int, m: int, p: np.ndarray, r: np.ndarray, b: np.ndarray) -> list[int]:
    """Items by falling profit, each taken if it still fits."""
    left, choice = b.copy(), [0] * n
    for j in np.argsort(-p, kind="stable").tolist():
        if (r[:, j] <= left).all():
            left -= r[:, j]
            choice[j] = 1
    return choice
