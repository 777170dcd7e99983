import numpy as np

SEEN: list[float] = []


def task_entry(time: float, loads: np.ndarray) -> int:
    """By turns, whatever the loads are."""
    SEEN.append(time)
    return (len(SEEN) - 1) % len(loads)
