import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Strips from the bottom up: first the pieces that must be cut, then the others in the order of their widths.
    A piece that does not fit the strip any more opens the next one; one that does not fit there either is left out."""
    rows = pieces.tolist()
    queue = [i for i, row in enumerate(rows) for _ in range(row[2])]
    queue += [i for i in sorted(range(len(rows)), key=lambda i: -rows[i][1]) for _ in range(rows[i][3] - rows[i][2])]
    placements = []
    x = y = height = 0
    for i in queue:
        length, width = rows[i][:2]
        if x + length > stock_length:
            x, y, height = 0, y + height, 0
        if y + width <= stock_width:
            height = max(height, width)
            placements.append((i, x, y))
            x += length
    return placements
