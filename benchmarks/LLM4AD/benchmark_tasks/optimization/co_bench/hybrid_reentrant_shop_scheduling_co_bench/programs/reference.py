import math
import random
from heapq import heappop, heappush

LEVEL = 5
STEPS = {1: 0, 2: 0, 3: 60, 4: 800, 5: 12000}[LEVEL]
"""Tried assignments; fewer of many jobs, where each takes longer."""


def solve(
    n_jobs: int, n_machines: int, init_time: int, setup_times: list[int], processing_times: list[int]
) -> dict[str, list[int]]:
    """With given machines the server is a single machine whose jobs have heads (their initializations) and tails (what
    their machines still have to do): of the jobs that are there the one with the longest tail goes first (Schrage's
    rule). Simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983) moves jobs to other machines, and exchanges two."""
    rng = random.Random(1)
    load, machine = [0] * n_machines, []
    for job in range(n_jobs):  # the machine with least to do (Graham, 1966)
        machine.append(load.index(min(load)))
        load[machine[job]] += init_time + processing_times[job]
    if LEVEL == 1:
        return {"permutation": list(range(n_jobs)), "batch_assignment": machine}
    length, order = served(machine, n_machines, init_time, setup_times, processing_times)
    best = (length, order, machine)
    heat, steps = 0.02 * length, min(STEPS, 400_000 // n_jobs, 60 * n_jobs * n_machines)
    for _ in range(steps if n_machines > 1 else 0):
        heat *= 0.001 ** (1 / steps)
        moved = list(machine)
        i, j = rng.randrange(n_jobs), rng.randrange(n_jobs)
        if rng.random() < 0.4 or moved[i] == moved[j]:
            moved[i] = (moved[i] + rng.randrange(1, n_machines)) % n_machines
        else:
            moved[i], moved[j] = moved[j], moved[i]
        found, order = served(moved, n_machines, init_time, setup_times, processing_times)
        if found <= length or (LEVEL > 3 and rng.random() < math.exp((length - found) / heat)):
            length, machine = found, moved
            if found < best[0]:
                best = (found, order, moved)
    return {"permutation": best[1], "batch_assignment": best[2]}


def served(machine, n_machines, init_time, setup_times, processing_times):
    """The makespan, and the order of the server."""
    heads, tails = [0] * n_machines, [0] * n_machines
    waiting = []
    for job, on in enumerate(machine):
        heads[on] += init_time
        waiting.append((heads[on], job))
    after = [0] * len(machine)
    for job in reversed(range(len(machine))):
        tails[machine[job]] += processing_times[job]
        after[job] = tails[machine[job]]
    length = max(head + tail for head, tail in zip(heads, tails, strict=True))
    waiting.sort(reverse=True)
    ready, order, now = [], [], 0
    while waiting or ready:
        if not ready and waiting[-1][0] > now:
            now = waiting[-1][0]
        while waiting and waiting[-1][0] <= now:
            job = waiting.pop()[1]
            heappush(ready, (-after[job], job))
        tail, job = heappop(ready)
        order.append(job)
        now += setup_times[job]
        if now - tail > length:
            length = now - tail
    return length, order
