import numpy as np


def equation(b: np.ndarray, s: np.ndarray, temp: np.ndarray, pH: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear in everything."""
    return params[0] * b + params[1] * s + params[2] * temp + params[3] * pH + params[4]
