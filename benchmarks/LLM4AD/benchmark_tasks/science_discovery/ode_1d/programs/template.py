import numpy as np


def equation(x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Linear: exponential growth or decay towards a fixed point."""
    return params[0] * x + params[1]
