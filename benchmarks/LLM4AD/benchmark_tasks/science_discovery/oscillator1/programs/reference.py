import numpy as np


def equation(x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The driven, damped form of LLM-SR's oscillator 1 (Shojaee et al., arXiv:2404.18400, 2024): a sine of the
    position, cubic terms, a mixed term and x cos(x)."""
    drive = params[0] * np.sin(params[1] * x)
    return drive - params[2] * v**3 - params[3] * x**3 - params[4] * x * v - params[5] * x * np.cos(x)
