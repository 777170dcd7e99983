import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Best fit that shuns gaps which few items will fill: fill a bin to the brim or leave it wide open, as the rules do
    that FunSearch found (Romera-Paredes et al., Nature 625, 2024)."""
    gaps = bins - item
    awkward = (gaps > 4) & (gaps < 25)
    return -gaps - 1000.0 * awkward
