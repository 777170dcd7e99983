import numpy as np


def solve(n: int, p: int, Q: float, points: np.ndarray, demands: np.ndarray) -> list[int]:
    """All customers to the one in the middle, more than it can serve."""
    between = points[:, None, :] - points[None, :, :]
    return [int(np.hypot(between[..., 0], between[..., 1]).sum(axis=1).argmin())] * n
