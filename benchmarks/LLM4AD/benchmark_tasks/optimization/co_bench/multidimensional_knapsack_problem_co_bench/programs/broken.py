import numpy as np


def solve(n: int, m: int, p: np.ndarray, r: np.ndarray, b: np.ndarray) -> list[int]:
    """Looks at the sum of all constraints only, and stops when that is exceeded."""
    choice = [0] * n
    for j in np.argsort(-p / (1 + r.sum(axis=0)), kind="stable").tolist():
        choice[j] = 1
        if (r @ np.array(choice)).sum() > b.sum():
            break
    return choice
