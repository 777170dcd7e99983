import numpy as np


def equation(strain: np.ndarray, temp: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The same stress everywhere."""
    return np.full(len(strain), 100 * params[0])
