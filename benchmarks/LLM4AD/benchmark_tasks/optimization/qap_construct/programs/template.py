import numpy as np


def select_next_assignment(
    current_assignment: list[int], flow_matrix: np.ndarray, distance_matrix: np.ndarray
) -> tuple[int, int]:
    """The unplaced facility with the most flow goes to the free location with the least distance to all others."""
    taken = [place for place in current_assignment if place >= 0]
    flow = flow_matrix.sum(axis=1).astype(float)
    flow[[facility for facility, place in enumerate(current_assignment) if place >= 0]] = -np.inf
    far = distance_matrix.sum(axis=1).astype(float)
    far[taken] = np.inf
    return int(flow.argmax()), int(far.argmin())
