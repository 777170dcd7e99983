import numpy as np


def equation(t: np.ndarray, x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear in time, position and velocity."""
    return params[0] * t + params[1] * x + params[2] * v + params[3]
