import numpy as np


def task_entry(times: np.ndarray, n_machines: int) -> list[int]:
    """Counts machines from 1, so that the last one does not exist."""
    return [i % n_machines + 1 for i in range(len(times))]
