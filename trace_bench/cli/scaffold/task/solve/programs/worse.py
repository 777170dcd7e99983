import numpy as np


def task_entry(times: np.ndarray, n_machines: int) -> list[int]:
    """All jobs on the first machine."""
    return [0] * len(times)
