import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Only the pieces that must be cut, side by side."""
    placements, x = [], 0
    for i, (length, _, least, _, _) in enumerate(pieces.tolist()):
        for _ in range(least):
            placements.append((i, x, 0))
            x += length
    return placements
