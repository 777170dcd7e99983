import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Strips from the bottom up, pieces in the order of their widths: what does not fit the strip any more opens the
    next one, and what that does not fit there either is left out."""
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i][1])
    placements = []
    x = y = height = 0
    for i in order:
        length, width, most, _ = (int(n) for n in pieces[i])
        for _ in range(most):
            if x + length > stock_length:
                x, y, height = 0, y + height, 0
            if x + length > stock_length or y + width > stock_width:
                break
            height = max(height, width)
            placements.append((i, x, y))
            x += length
    return placements
