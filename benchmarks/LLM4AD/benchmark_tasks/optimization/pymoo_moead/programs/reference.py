import numpy as np

LEVEL = 5


def custom_decomposition(F: np.ndarray, weights: np.ndarray, ideal_point: np.ndarray) -> np.ndarray:
    """The distance from the origin, and a penalty for the angle to the weights beyond a tenth: a solution may not leave
    its part of the front, however crowded another one is. Level 1 is the weighted Chebyshev distance, level 2
    penalty-based boundary intersection (both: Zhang, Li, MOEA/D, 2007), level 3 the same from the origin with a larger
    penalty, level 4 the angle with a share of the distance."""
    if LEVEL == 1:
        return np.max(np.maximum(weights, 1e-3) * (F - ideal_point), axis=1)
    away = F - ideal_point if LEVEL == 2 else F
    norm = np.sqrt(np.sum(weights**2, axis=1))
    along = np.sum(away * weights, axis=1) / norm
    if LEVEL <= 3:
        beside = np.sqrt(np.sum((away - (along / norm)[:, None] * weights) ** 2, axis=1))
        return along + (5 if LEVEL == 2 else 20) * beside
    distance = np.sqrt(np.sum(away**2, axis=1)) + 1e-12
    angle = np.arccos(np.clip(along / distance, -1, 1))
    if LEVEL == 4:
        return angle + 0.3 * distance
    return distance + 0.01 * angle + 5 * np.maximum(angle - 0.1, 0)
