import numpy as np


def task_entry(time: float, loads: np.ndarray) -> int:
    """Always the first machine."""
    return 0
