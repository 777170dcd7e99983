import numpy as np


def equation(b: np.ndarray, s: np.ndarray, temp: np.ndarray, pH: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Monod kinetics with a constant that is defined nowhere."""
    return params[0] * b * s / (half_saturation + s)  # noqa: F821
