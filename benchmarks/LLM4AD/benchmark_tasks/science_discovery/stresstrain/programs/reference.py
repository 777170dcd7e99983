import numpy as np


def equation(strain: np.ndarray, temp: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Hooke's law up to the yield stress, then the hardening and the thermal softening of Johnson and Cook (1983)."""
    modulus, rest = 70000 * params[0], 300 * params[1]
    plastic = np.maximum(strain - rest / modulus, 1e-12)
    hardened = rest + 300 * params[2] * plastic ** np.abs(params[3])
    heat = np.maximum((temp - 20) / 620, 1e-12)
    return np.minimum(modulus * strain, hardened) * (1 - params[4] * heat ** np.abs(params[5]))
