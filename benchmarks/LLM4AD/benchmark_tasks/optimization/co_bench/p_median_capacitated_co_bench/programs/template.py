import numpy as np


def solve(n: int, p: int, Q: float, points: np.ndarray, demands: np.ndarray) -> list[int]:
    """Medians far from one another; then customers by demand, the largest first, each to the nearest with room."""
    between = points[:, None, :] - points[None, :, :]
    dist = np.floor(np.sqrt((between**2).sum(axis=2)))
    medians = [int(dist.sum(axis=1).argmin())]
    while len(medians) < p:
        near = dist[medians].min(axis=0)
        near[medians] = -1
        medians.append(int(near.argmax()))
    room, of = np.full(p, float(Q)), [0] * n
    for customer in np.argsort(-demands, kind="stable").tolist():
        fits = room >= demands[customer]
        number = int(np.where(fits, dist[medians, customer], np.inf).argmin())
        room[number] -= demands[customer]
        of[customer] = medians[number]
    return of
