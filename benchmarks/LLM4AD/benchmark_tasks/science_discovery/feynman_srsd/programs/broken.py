import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear in all variables, but never summed: a row for each."""
    return params[: len(x), None] * x
