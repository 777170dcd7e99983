import random

PLAN = []


def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """Follows a sequence planned at the first call: active schedules (Giffler, Thompson, 1960) in which the job with
    the most work remaining goes first, the best of 40 with slightly shaken priorities (Storer, Wu, Vaccari, 1992)."""
    if not any(current_status["next_operation"]):
        machines, times = current_status["machines"].tolist(), current_status["times"].tolist()
        PLAN[:] = planned([list(zip(*rows, strict=True)) for rows in zip(machines, times, strict=True)])
    job = PLAN.pop(0)
    return next(o for o in feasible_operations if o[0] == job)


def planned(jobs):
    rng = random.Random(1)
    best = None
    shakes = [1.0] * len(jobs)
    chosen = shakes
    for turn in range(40):
        if turn:
            width = (0.05, 0.2, 0.05, 0.9)[turn % 4]
            shakes = [s * rng.uniform(1 - width, 1 + width) for s in chosen]
        length, order = active(jobs, shakes)
        if best is None or length < best[0]:
            best, chosen = (length, order), shakes
    return best[1]


def active(jobs, shakes):
    n, m = len(jobs), 1 + max(machine for job in jobs for machine, _ in job)
    free, ready, k = [0] * m, [0] * n, [0] * n
    left = [sum(time for _, time in job) for job in jobs]
    order = []
    unfinished = list(range(n))
    while unfinished:
        first = None
        for j in unfinished:
            machine, time = jobs[j][k[j]]
            end = max(ready[j], free[machine]) + time
            if first is None or end < first:
                first, where = end, machine
        rivals = [j for j in unfinished if jobs[j][k[j]][0] == where and max(ready[j], free[where]) < first]
        job = max(rivals, key=lambda j: left[j] * shakes[j])
        time = jobs[job][k[job]][1]
        ready[job] = free[where] = max(ready[job], free[where]) + time
        left[job] -= time
        k[job] += 1
        order.append(job)
        if k[job] == len(jobs[job]):
            unfinished.remove(job)
    return max(ready), order
