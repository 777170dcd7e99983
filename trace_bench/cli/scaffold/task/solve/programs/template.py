import numpy as np


def task_entry(times: np.ndarray, n_machines: int) -> list[int]:
    """By turns: job i goes to machine i modulo the number of machines."""
    return [i % n_machines for i in range(len(times))]
