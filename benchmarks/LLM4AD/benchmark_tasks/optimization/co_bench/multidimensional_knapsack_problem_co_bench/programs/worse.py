import numpy as np


def solve(n: int, m: int, p: np.ndarray, r: np.ndarray, b: np.ndarray) -> list[int]:
    """Items in the order of their numbers, until one does not fit."""
    left, choice = b.copy(), [0] * n
    for j in range(n):
        if (r[:, j] > left).any():
            break
        left -= r[:, j]
        choice[j] = 1
    return choice
