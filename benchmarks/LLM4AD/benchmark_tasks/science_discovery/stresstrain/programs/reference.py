import numpy as np

LEVEL = 5


def equation(strain: np.ndarray, temp: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Hooke's law up to the yield stress, then the hardening and the thermal softening of Johnson and Cook (1983).
    Level 1 neither hardens nor softens, level 2 softens linearly, level 3 hardens linearly, level 4 hardens by a power
    of the plastic strain."""
    modulus, rest = 70000 * params[0], 300 * params[1]
    plastic = np.maximum(strain - rest / modulus, 1e-12)
    power = 0.5 * np.abs(params[3]) if LEVEL >= 4 else 1.0
    hardened = rest + (300 * params[2] * plastic**power if LEVEL >= 3 else 0.0)
    heat = np.maximum((temp - 20) / 620, 1e-12) ** (1.2 * np.abs(params[5]) if LEVEL == 5 else 1.0)
    return np.minimum(modulus * strain, hardened) * (1 - (params[4] * heat if LEVEL >= 2 else 0.0))
