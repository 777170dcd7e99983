import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The same rate always."""
    return np.full(len(x), params[0])
