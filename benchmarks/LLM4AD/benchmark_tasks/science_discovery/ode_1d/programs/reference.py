import numpy as np

LEVEL = 5


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Logistic growth (Verhulst, 1838), which ODEBench has as its system 3. The other levels also grow to a limit: by a
    power of the size (level 1), as von Bertalanffy (2) and Gompertz (3) have it, or with a power of the size in place
    of the size in the braking term (4)."""
    size = np.maximum(np.abs(x), 1e-9) / 50
    if LEVEL == 1:
        return 50 * (params[0] - params[1] * size**2)
    if LEVEL == 2:
        return 50 * (params[0] * size ** (2 / 3) - params[1] * size)
    if LEVEL == 3:
        return 50 * size * (params[0] - params[1] * np.log(size))
    if LEVEL == 4:
        return 50 * params[0] * size * (1 - np.sqrt(size / np.abs(params[1])))
    return params[0] * x * (1 - x / (50 * params[1]))
