import numpy as np


def solve(stocks: np.ndarray, pieces: np.ndarray) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
    """The least number of each piece on sheets of the largest type: rows from the bottom up, pieces as they come and
    not turned; a piece that fits neither the row nor the next one begins a new sheet."""
    stock = int((stocks[:, 0] * stocks[:, 1]).argmax())
    length, width = (int(n) for n in stocks[stock])
    sheets = [(stock, [])]
    x = y = height = 0
    for piece, (across, up, least, _) in enumerate(pieces.tolist()):
        for _ in range(least):
            if x + across > length:
                x, y, height = 0, y + height, 0
            if y + up > width:
                sheets.append((stock, []))
                x = y = height = 0
            sheets[-1][1].append((piece, x, y, 0))
            x, height = x + across, max(height, up)
    return sheets
