import numpy as np


def equation(strain: np.ndarray, temp: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Hardening by a power of the strain from which the yield point was taken away: not a number below it."""
    return 300 * params[0] + 300 * params[1] * (strain - 0.01) ** 0.4 * (1 - params[2] * temp / 600)
