import numpy as np


def equation(strain: np.ndarray, temp: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear in the temperature and in the logarithm of the strain."""
    return 100 * params[0] * np.log(strain + 0.001) + params[1] * temp + 100 * params[2]
