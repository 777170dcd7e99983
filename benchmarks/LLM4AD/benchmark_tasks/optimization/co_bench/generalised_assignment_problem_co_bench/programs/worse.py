import numpy as np


def solve(m: int, n: int, cost_matrix: np.ndarray, consumption_matrix: np.ndarray, capacities: np.ndarray) -> list[int]:
    """Each job to the agent with room of which it takes least, whatever it costs; those that take much come first."""
    room = capacities.astype(float)
    agents = [0] * n
    for job in np.argsort(-consumption_matrix.min(axis=0), kind="stable").tolist():
        takes = consumption_matrix[:, job]
        fits = room >= takes
        agents[job] = int(np.where(fits, takes, np.inf).argmin() if fits.any() else (room - takes).argmax())
        room[agents[job]] -= takes[agents[job]]
    return agents
