import numpy as np


def solve(n: int, cost_matrix: np.ndarray) -> list[int]:
    """Item by item, the cheapest agent that is still free."""
    free = np.ones(n, dtype=bool)
    agents = []
    for item in range(n):
        agent = int(np.where(free, cost_matrix[item], np.inf).argmin())
        free[agent] = False
        agents.append(agent)
    return agents
