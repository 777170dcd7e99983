import numpy as np


def equation(t: np.ndarray, x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear, but a row for each term: the terms were never summed."""
    return np.array([params[0] * t, params[1] * x, params[2] * v])
