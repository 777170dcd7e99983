import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Logistic growth written for a single number."""
    return float(params[0] * x[0] * (1 - x[0] / params[1]))
