import numpy as np


def solve(N: int, K: int, time_limit: int, tasks: np.ndarray, arcs: np.ndarray) -> list[list[int]]:
    """The cheapest transition task by task; then pairs of crews exchange what they have left to do wherever that costs
    more."""
    cost = {(i, j): c for i, j, c in arcs.tolist()}
    times = tasks.tolist()
    crews = []
    for task in sorted(range(N), key=lambda t: times[t]):
        fit = [crew for crew in crews if (crew[-1], task) in cost and times[task][1] - times[crew[0]][0] <= time_limit]
        if fit:
            min(fit, key=lambda crew: cost[crew[-1], task]).append(task)
        else:
            crews.append([task])
    for a in range(len(crews)):
        for b in range(a):
            for i in range(1, len(crews[a])):
                for j in range(1, len(crews[b])):
                    one, other = crews[a][:i] + crews[b][j:], crews[b][:j] + crews[a][i:]
                    if (one[i - 1], one[i]) not in cost or (other[j - 1], other[j]) not in cost:
                        continue
                    if any(times[c[-1]][1] - times[c[0]][0] > time_limit for c in (one, other)):
                        continue
                    if total([one, other], cost) > total([crews[a], crews[b]], cost):
                        crews[a], crews[b] = one, other
                        break
                else:
                    continue
                break
    return crews


def total(crews, cost):
    return sum(cost[crew[i], crew[i + 1]] for crew in crews for i in range(len(crew) - 1))
