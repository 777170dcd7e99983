import numpy as np

LEVEL = 5


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Powers of the variables (of the first eight) times the bell curve of Gauss in the first: exact for law 1 (Feynman
    lectures, I.6.20a) and for products of powers of positive variables. Levels 1, 2 and 4 have a rational function in
    its place that tends to it with its exponent, level 3 an exponential of the first variable."""
    first, decay = x[0], params[1]
    if LEVEL == 5:
        bell = np.exp(-decay / 2 * first**2)
    elif LEVEL == 3:
        bell = np.exp(-decay * first)
    else:
        bell = (1 + np.abs(decay) * first**2 / 2 ** (LEVEL + 1)) ** -(2.0**LEVEL)
    powers = np.abs(x[:8]) ** params[2 : min(len(x), 8) + 2, None]
    return params[0] * bell * np.prod(powers, axis=0)
