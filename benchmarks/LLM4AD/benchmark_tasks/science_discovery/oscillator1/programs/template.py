import numpy as np


def equation(x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """A linear spring, and a linear damping that depends on the position."""
    return params[0] * x + params[1] * v + params[2] * x * v
