import math
import random

import numpy as np


def solve(N: int, K: int, time_limit: int, tasks: np.ndarray, arcs: np.ndarray) -> list[list[int]]:
    """The cheapest transition task by task, then simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983): two crews
    exchange what they have left to do (2-opt*, Potvin, Rousseau, 1995) from tasks on that may follow one another."""
    cost = {(i, j): c for i, j, c in arcs.tolist()}
    times = tasks.tolist()
    crews = []
    for task in sorted(range(N), key=lambda t: times[t]):
        fit = [crew for crew in crews if (crew[-1], task) in cost and times[task][1] - times[crew[0]][0] <= time_limit]
        if fit:
            min(fit, key=lambda crew: cost[crew[-1], task]).append(task)
        else:
            crews.append([task])
    crews += [[] for _ in range(K - len(crews))]
    if K < 2 or not cost:
        return crews
    rng = random.Random(1)
    pairs = sorted(cost)
    at = {task: c for c, crew in enumerate(crews) for task in crew}
    change, best, chosen = 0, 0, [list(crew) for crew in crews]
    heat = 30.0
    for turn in range(25000):
        heat *= 0.9998
        if turn % 5:  # let task j follow task i
            i, j = pairs[rng.randrange(len(pairs))]
            a, b = at[i], at[j]
            if a == b:
                continue
            cut, other = crews[a].index(i) + 1, crews[b].index(j)
        else:
            a, b = rng.randrange(K), rng.randrange(K)
            if a == b:
                continue
            cut, other = rng.randint(0, len(crews[a])), rng.randint(0, len(crews[b]))
        one, two = crews[a][:cut] + crews[b][other:], crews[b][:other] + crews[a][cut:]
        gain = 0
        for old, new, place in ((crews[a], one, cut), (crews[b], two, other)):
            if 0 < place < len(old):
                gain += cost[old[place - 1], old[place]]
            if 0 < place < len(new):
                step = cost.get((new[place - 1], new[place]))
                if step is None:
                    gain = None
                    break
                gain -= step
            if new and times[new[-1]][1] - times[new[0]][0] > time_limit:
                gain = None
                break
        if gain is None or (gain < 0 and rng.random() >= math.exp(gain / heat)):
            continue
        crews[a], crews[b] = one, two
        for task in one:
            at[task] = a
        for task in two:
            at[task] = b
        change -= gain
        if change < best:
            best, chosen = change, [list(crew) for crew in crews]
    return chosen
