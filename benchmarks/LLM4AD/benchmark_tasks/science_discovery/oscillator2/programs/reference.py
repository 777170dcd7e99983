import numpy as np


def equation(t: np.ndarray, x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The driven form of LLM-SR's oscillator 2 (Shojaee et al., arXiv:2404.18400, 2024): a sine of the time, cubic
    damping, a mixed term, and a restoring force that grows exponentially."""
    drive = params[0] * np.sin(params[1] * t)
    return drive - params[2] * v**3 - params[3] * x * v - 5 * params[4] * x * np.exp(np.clip(params[5] * x, -50, 50))
