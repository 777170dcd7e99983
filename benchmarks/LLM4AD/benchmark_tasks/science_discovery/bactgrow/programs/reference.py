import numpy as np

LEVEL = 5


def equation(b: np.ndarray, s: np.ndarray, temp: np.ndarray, pH: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Monod kinetics (1949) times a response to the temperature and one to the pH, in the form that LLM-SR (Shojaee
    et al., arXiv:2404.18400, 2024) gives for E. coli. Level 1 has the kinetics and linear responses,
    level 2 a parabola for the temperature, level 3 one for the pH, level 4 the temperature's own form and a bell for
    the pH."""
    food = params[0] * b * s / (np.abs(params[1]) + s)
    if LEVEL == 1:
        return food * (params[2] + params[3] * temp / 30 + params[4] * pH / 7)
    if LEVEL <= 3:
        acid = params[4] - (pH / 7 - params[5]) ** 2 if LEVEL == 3 else params[4] + params[5] * pH / 7
        return food * (params[2] - (temp / 30 - params[3]) ** 2) * acid
    rise, fall = 0.1 * params[2], 1e-4 * np.abs(params[4])
    warm = np.tanh(rise * (temp - 5 * params[3])) / (1 + fall * (temp - 30 * params[5]) ** 4)
    if LEVEL == 4:
        return food * warm * np.exp(-(params[7] ** 2) * (pH - 7 * params[6]) ** 2)
    low, high = 4 * params[7], 9 * params[8]
    return food * warm * np.exp(-np.abs(pH - 7 * params[6])) * np.sin(np.pi * (pH - low) / (high - low)) ** 2
