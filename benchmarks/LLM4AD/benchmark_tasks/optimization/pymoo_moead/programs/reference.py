import numpy as np


def custom_decomposition(F: np.ndarray, weights: np.ndarray, ideal_point: np.ndarray) -> np.ndarray:
    """Penalty-based boundary intersection (Zhang, Li, MOEA/D, 2007), penalty 5: how far along the direction of the
    weights, and how far from it."""
    norm = np.sqrt(np.sum(weights**2, axis=1))
    away = F - ideal_point
    along = np.abs(np.sum(away * weights, axis=1)) / norm
    beside = np.sqrt(np.sum((away - (along / norm)[:, None] * weights) ** 2, axis=1))
    return along + 5 * beside
