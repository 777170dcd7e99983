import numpy as np


def solve(m: int, n: int, cost_matrix: np.ndarray, consumption_matrix: np.ndarray, capacities: np.ndarray) -> list[int]:
    """Each job to the agent of which it takes least; then, job by job, to its cheapest agent that has room."""
    room = capacities.astype(float)
    agents = [0] * n
    for job in np.argsort(-consumption_matrix.min(axis=0), kind="stable").tolist():
        takes = consumption_matrix[:, job]
        fits = room >= takes
        agents[job] = int(np.where(fits, takes, np.inf).argmin() if fits.any() else (room - takes).argmax())
        room[agents[job]] -= takes[agents[job]]
    for job in range(n):
        takes = consumption_matrix[:, job]
        room[agents[job]] += takes[agents[job]]
        fits = room >= takes
        if fits.any():
            agents[job] = int(np.where(fits, cost_matrix[:, job], np.inf).argmin())
        room[agents[job]] -= takes[agents[job]]
    return agents
