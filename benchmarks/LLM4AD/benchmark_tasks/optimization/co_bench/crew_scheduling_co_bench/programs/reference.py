import math
import random

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csc_array, vstack

LEVEL = 5
STEPS = {1: 1000, 2: 10000, 3: 80000, 4: 10000, 5: 20000}[LEVEL]
"""Of simulated annealing."""
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 10, 5: 60}[LEVEL]
"""Most linear programs that generate columns."""
NODES, WIDTH = 20, 2
"""Most nodes of the last, integer one, and most columns in it for each task."""


def solve(N: int, K: int, time_limit: int, tasks: np.ndarray, arcs: np.ndarray) -> list[list[int]]:
    """The cheapest transition task by task, then simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983): two crews
    exchange what they have left to do (2-opt*, Potvin, Rousseau, 1995). Then columns are generated (Desrochers, Soumis,
    1989): prices of the tasks, the best duty from each task on for these prices, and in the end the best choice of all
    duties that came up."""
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
    crews = annealed(crews, cost, times, time_limit)
    return generated(crews, cost, times, time_limit) if ROUNDS and len(crews) == K else crews


def annealed(crews, cost, times, time_limit):
    rng = random.Random(1)
    pairs = sorted(cost)
    at = {task: c for c, crew in enumerate(crews) for task in crew}
    change, best, chosen = 0, 0, [list(crew) for crew in crews]
    heat = 20.0
    for turn in range(STEPS):
        heat *= 0.01 ** (1 / STEPS)
        if turn % 5:  # let task j follow task i
            i, j = pairs[rng.randrange(len(pairs))]
            a, b = at[i], at[j]
            if a == b:
                continue
            cut, other = crews[a].index(i) + 1, crews[b].index(j)
        else:
            a, b = rng.randrange(len(crews)), rng.randrange(len(crews))
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


def generated(crews, cost, times, time_limit):
    n = len(times)
    duties = {tuple(crew): None for crew in crews if crew} | {(task,): None for task in range(n)}
    own = {tuple(crew) for crew in crews}
    known = sum(spent(crew, cost) for crew in crews)
    start, finish = np.array(times).T
    before = [[] for _ in range(n)]
    for i, j in sorted(cost):
        before[j].append(i)
    order = np.argsort(start, kind="stable").tolist()
    dearest = np.zeros(n + 1)
    for _ in range(ROUNDS):
        rows, costs = columns(duties, n, cost)
        solved = linprog(costs, rows[n:], [len(crews)], rows[:n], np.ones(n), bounds=(0, None), method="highs-ipm")
        if solved.status:
            return crews
        prices, share = solved.eqlin.marginals, float(solved.ineqlin.marginals[0])
        dearest = np.append(prices, share)
        reach = np.full((n, n), np.inf)  # from the first task of a duty to its last
        came = np.full((n, n), -1)
        for j in order:
            reach[j, j] = 0.0
            if before[j]:
                ways = reach[:, before[j]] + np.array([cost[i, j] for i in before[j]])
                way = ways.argmin(axis=1)
                found = ways[np.arange(n), way]
                there = (finish[j] - start <= time_limit) & (found < reach[:, j])
                reach[there, j], came[there, j] = found[there], np.array(before[j])[way[there]]
            reach[:, j] -= prices[j]
        least = reach - share
        ends = {(s, int(least[s].argmin())) for s in range(n)} | {(int(least[:, e].argmin()), e) for e in range(n)}
        new = sorted(pair for pair in ends if least[pair] < -1e-6)
        if not new:
            break
        for s, e in new:
            duty = [e]
            while duty[-1] != s:
                duty.append(int(came[s, duty[-1]]))
            duties[tuple(duty[::-1])] = None
    rows, costs = columns(duties, n, cost)
    room = known - float(dearest[:n].sum() + dearest[n] * len(crews))
    above = costs - rows.T @ dearest
    above[[duty in own for duty in duties]] = 0.0
    kept = np.argsort(above, kind="stable")[: WIDTH * n]
    kept = np.sort(kept[above[kept] < room + 1e-6])  # no others are in a better choice
    rows = rows[:, kept]
    most = np.append(np.ones(n), len(crews))
    solved = milp(
        costs[kept],
        integrality=np.ones(len(kept)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(rows, np.append(np.ones(n), 0), most),
        options={"node_limit": NODES},
    )
    if solved.x is None or solved.fun > known - 0.5:
        return crews
    listed = list(duties)
    return [list(listed[k]) for k, x in zip(kept, solved.x, strict=True) if x > 0.5]


def columns(duties, n, cost):
    """A column for each duty, with 1 in the rows of its tasks and in a last row; and what duties cost."""
    tasks = [task for duty in duties for task in duty]
    starts = np.concatenate([[0], np.cumsum([len(duty) for duty in duties])])
    rows = csc_array((np.ones(len(tasks)), tasks, starts), shape=(n, len(duties)))
    return vstack([rows, np.ones((1, len(duties)))], format="csc"), np.array([spent(duty, cost) for duty in duties])


def spent(crew, cost):
    return sum(cost[crew[k], crew[k + 1]] for k in range(len(crew) - 1))
