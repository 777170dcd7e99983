import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Logistic growth (Verhulst, 1838), which ODEBench has as its system 3."""
    return params[0] * x * (1 - x / (50 * params[1]))
