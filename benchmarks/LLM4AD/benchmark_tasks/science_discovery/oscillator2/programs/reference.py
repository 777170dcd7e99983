import numpy as np

LEVEL = 5


def equation(t: np.ndarray, x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The driven form of LLM-SR's oscillator 2 (Shojaee et al., arXiv:2404.18400, 2024): a sine of the time, cubic
    damping, a mixed term, and a restoring force that grows exponentially. Level 1 has a linear spring and cubic
    damping, level 2 the sine, level 3 the mixed term and a quadratic spring, and level 4 a cubic one."""
    damping = params[2] * v**3 + (params[3] * x * v if LEVEL >= 3 else 0.0)
    drive = params[0] * np.sin(params[1] * t) if LEVEL >= 2 else 0.0
    if LEVEL == 5:
        return drive - damping - 5 * params[4] * x * np.exp(np.clip(params[5] * x, -50, 50))
    bent = params[5] * x**2 if LEVEL >= 3 else 0.0
    cubic = params[6] * x**3 if LEVEL == 4 else 0.0
    return drive - damping - 5 * params[4] * x - bent - cubic
