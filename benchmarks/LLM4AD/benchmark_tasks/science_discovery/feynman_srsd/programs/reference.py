import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Powers of the variables (of the first eight) times the bell curve of Gauss in the first: exact for law 1 (Feynman
    lectures, I.6.20a) and for products of powers."""
    bell = params[0] * np.exp(-params[1] / 2 * x[0] ** 2)
    powers = np.abs(x[:8]) ** params[2 : min(len(x), 8) + 2, None]
    return bell * np.prod(powers, axis=0)
