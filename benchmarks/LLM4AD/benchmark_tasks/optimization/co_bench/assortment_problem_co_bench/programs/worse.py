import numpy as np


def solve(stocks: np.ndarray, pieces: np.ndarray) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
    """The least number of each piece, each on a sheet of its own, all sheets of the largest type."""
    stock = int((stocks[:, 0] * stocks[:, 1]).argmax())
    return [(stock, [(piece, 0, 0, 0)]) for piece, row in enumerate(pieces.tolist()) for _ in range(row[2])]
