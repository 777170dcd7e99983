import math
import random

PLAN = []


def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """Follows a sequence planned at the first call: an active schedule in which the job with the most work remaining
    goes first (Giffler, Thompson, 1960), then simulated annealing that swaps neighbours on a critical path (van
    Laarhoven, Aarts, Lenstra, 1992)."""
    if not any(current_status["next_operation"]):
        machines, times = current_status["machines"].tolist(), current_status["times"].tolist()
        PLAN[:] = planned(machines, times)
    job = PLAN.pop(0)
    return next(o for o in feasible_operations if o[0] == job)


def planned(machines, times):
    rng = random.Random(1)
    queues = active(machines, times)
    starts, length, pairs = timed(queues, machines, times)
    best, heat = (length, starts), 30.0
    for _ in range(1500):
        heat *= 0.996
        if not pairs:
            break
        machine, i = pairs[rng.randrange(len(pairs))]
        queue = queues[machine]
        queue[i], queue[i + 1] = queue[i + 1], queue[i]
        found = timed(queues, machines, times)
        if found[1] <= length or rng.random() < math.exp((length - found[1]) / heat):
            starts, length, pairs = found
            best = min(best, (length, starts))
        else:
            queue[i], queue[i + 1] = queue[i + 1], queue[i]
    starts = best[1]
    return [j for _, j in sorted((start, j) for j, row in enumerate(starts) for start in row)]


def timed(queues, machines, times):
    """Earliest starts, the makespan, and the neighbours (machine, place) on one critical path."""
    n, m = len(times), len(queues)
    starts = [[0] * len(row) for row in times]
    at, k, ready, free = [0] * m, [0] * n, [0] * n, [0] * m
    stack = list(range(m))
    while stack:
        machine = stack.pop()
        queue = queues[machine]
        while at[machine] < len(queue):
            job, place = queue[at[machine]]
            if k[job] != place:
                break
            start = ready[job] if ready[job] > free[machine] else free[machine]
            starts[job][place] = start
            ready[job] = free[machine] = start + times[job][place]
            at[machine] += 1
            k[job] = place + 1
            if place + 1 < len(times[job]):
                stack.append(machines[job][place + 1])
    length = max(ready)
    job = ready.index(length)
    place, pairs = len(times[job]) - 1, []
    while starts[job][place]:
        machine, start = machines[job][place], starts[job][place]
        i = queues[machine].index((job, place))
        other, spot = queues[machine][i - 1] if i else (job, place)
        if i and starts[other][spot] + times[other][spot] == start:
            pairs.append((machine, i - 1))
            job, place = other, spot
        else:
            place -= 1
    return starts, length, pairs


def active(machines, times):
    n, m = len(times), 1 + max(map(max, machines))
    free, ready, k = [0] * m, [0] * n, [0] * n
    left = [sum(row) for row in times]
    queues = [[] for _ in range(m)]
    for _ in range(sum(map(len, times))):
        unfinished = [j for j in range(n) if k[j] < len(times[j])]
        ends = {j: max(ready[j], free[machines[j][k[j]]]) + times[j][k[j]] for j in unfinished}
        first = min(unfinished, key=ends.get)
        machine = machines[first][k[first]]
        rivals = [j for j in unfinished if machines[j][k[j]] == machine and ends[j] - times[j][k[j]] < ends[first]]
        job = max(rivals, key=left.__getitem__)
        queues[machine].append((job, k[job]))
        ready[job] = free[machine] = ends[job]
        left[job] -= times[job][k[job]]
        k[job] += 1
    return queues
