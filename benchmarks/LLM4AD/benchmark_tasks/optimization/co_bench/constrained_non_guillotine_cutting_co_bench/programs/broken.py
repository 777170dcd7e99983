import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """One piece of each type in the order of their values, as far as the total area allows; all in the corner."""
    placements, left = [], stock_length * stock_width
    for i in np.argsort(-pieces[:, 4]).tolist():
        area = int(pieces[i][0] * pieces[i][1])
        if area <= left:
            placements.append((i, 0, 0))
            left -= area
    return placements
