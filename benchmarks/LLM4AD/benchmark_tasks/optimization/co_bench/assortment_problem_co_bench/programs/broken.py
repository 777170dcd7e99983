import numpy as np


def solve(stocks: np.ndarray, pieces: np.ndarray) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
    """The least number of each piece, in rows that go on upwards: all on one sheet of the smallest type, as if it were a roll."""
    stock = int((stocks[:, 0] * stocks[:, 1]).argmin())
    placements, x, y, height = [], 0, 0, 0
    for piece, (across, up, least, _) in enumerate(pieces.tolist()):
        for _ in range(least):
            if x + across > stocks[stock][0]:
                x, y, height = 0, y + height, 0
            placements.append((piece, x, y, 0))
            x, height = x + across, max(height, up)
    return [(stock, placements)]
