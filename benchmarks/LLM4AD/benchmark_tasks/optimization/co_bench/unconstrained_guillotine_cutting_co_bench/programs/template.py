import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Strips from the bottom up: each is as high as the next widest piece that fits, and is filled from left to right
    with the longest pieces that are no wider."""
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i][1])
    placements, y = [], 0
    while True:
        first = next((i for i in order if y + pieces[i][1] <= stock_width), None)
        if first is None:
            return placements
        height, x, piece = int(pieces[first][1]), 0, first
        while piece is not None:
            placements.append((piece, x, y))
            x += int(pieces[piece][0])
            fits = [i for i in order if pieces[i][1] <= height and x + pieces[i][0] <= stock_length]
            piece = max(fits, key=lambda i: pieces[i][0], default=None)
        y += height
