import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The same value everywhere."""
    return np.full(x.shape[1], params[0])
