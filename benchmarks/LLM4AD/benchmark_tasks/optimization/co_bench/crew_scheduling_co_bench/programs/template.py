import numpy as np


def solve(N: int, K: int, time_limit: int, tasks: np.ndarray, arcs: np.ndarray) -> list[list[int]]:
    """Task by task in the order of their starts: to the crew whose transition to it is cheapest within its duty, to a
    new crew if there is none."""
    cost = {(i, j): c for i, j, c in arcs.tolist()}
    times = tasks.tolist()
    crews = []
    for task in sorted(range(N), key=lambda t: times[t]):
        fit = [crew for crew in crews if (crew[-1], task) in cost and times[task][1] - times[crew[0]][0] <= time_limit]
        if fit:
            min(fit, key=lambda crew: cost[crew[-1], task]).append(task)
        else:
            crews.append([task])
    return crews
