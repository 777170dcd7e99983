import numpy as np


def solve(n: int, p: int, Q: float, points: np.ndarray, demands: np.ndarray) -> list[int]:
    """The first p customers are medians; the others go to the one with the most room, however far."""
    room, of = np.full(p, float(Q)), [0] * n
    for customer in np.argsort(-demands, kind="stable").tolist():
        of[customer] = int(room.argmax())
        room[of[customer]] -= demands[customer]
    return of
