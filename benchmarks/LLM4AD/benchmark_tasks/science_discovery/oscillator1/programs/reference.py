import numpy as np

LEVEL = 5


def equation(x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The driven, damped form of LLM-SR's oscillator 1 (Shojaee et al., arXiv:2404.18400, 2024): a sine of the
    position, cubic terms, a mixed term and x cos(x). Level 1 has a linear spring, cubic damping and the mixed
    term, level 2 a cubic spring, level 3 the sine, and level 4 a spring of fifth order in its place."""
    rest = params[2] * v**3 + params[3] * x**3 * (LEVEL >= 2) + params[4] * x * v
    if LEVEL in (1, 2, 4):
        return params[0] * x - rest - params[5] * x**5 * (LEVEL == 4)
    return params[0] * np.sin(params[1] * x) - rest - params[5] * x * np.cos(x) * (LEVEL == 5)
