import numpy as np

LEVEL = 5
WIDE = (0, 0, 12, 15, 18, 25)[LEVEL]
"""Gaps above 4 and below it are awkward."""


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit that shuns gaps which few items will fill, as the rules do that FunSearch found (Romera-Paredes et al.,
    Nature 625, 2024). The first block with a bin that gets no awkward gap ends the search."""
    gaps = bins - item
    awkward = (gaps > 4) & (gaps < WIDE)
    scores = -gaps - 1000.0 * awkward
    best = scores.argmax()
    if not awkward[best]:
        scores[best] = np.inf
    return scores
