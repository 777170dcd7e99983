import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """A grid of the piece that is worth most for its area, however few of it there may be."""
    best = int((pieces[:, 3] / (pieces[:, 0] * pieces[:, 1])).argmax())
    length, width, _, _ = (int(n) for n in pieces[best])
    places = [(x, y) for x in range(0, stock_length + 1, length) for y in range(0, stock_width + 1, width)]
    return [(best, x, y) for x, y in places]
