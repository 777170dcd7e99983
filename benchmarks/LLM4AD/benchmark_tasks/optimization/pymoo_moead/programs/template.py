import numpy as np


def custom_decomposition(F: np.ndarray, weights: np.ndarray, ideal_point: np.ndarray) -> np.ndarray:
    """Weighted sum of the objectives."""
    return np.sum(weights * (F - ideal_point), axis=1)
