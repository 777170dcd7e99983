import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """The piece of greatest value in a grid that goes on one piece beyond the edge."""
    best = int(pieces[:, 2].argmax())
    length, width = int(pieces[best][0]), int(pieces[best][1])
    return [(best, x, y) for x in range(0, stock_length + 1, length) for y in range(0, stock_width + 1, width)]
