import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear in all variables."""
    return params[0] + np.sum(params[1 : len(x) + 1, None] * x, axis=0)
