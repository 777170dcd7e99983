import numpy as np


def equation(b: np.ndarray, s: np.ndarray, temp: np.ndarray, pH: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Monod kinetics (1949) times a response to the temperature and one to the pH, in the form that LLM-SR (Shojaee
    et al., arXiv:2404.18400, 2024) gives for E. coli."""
    food = s / (np.abs(params[1]) + s)
    rise, fall = 0.1 * params[2], 1e-4 * np.abs(params[4])
    warm = np.tanh(rise * (temp - 5 * params[3])) / (1 + fall * (temp - 30 * params[5]) ** 4)
    low, high = 4 * params[7], 9 * params[8]
    acid = np.exp(-np.abs(pH - 7 * params[6])) * np.sin(np.pi * (pH - low) / (high - low)) ** 2
    return params[0] * b * food * warm * acid
