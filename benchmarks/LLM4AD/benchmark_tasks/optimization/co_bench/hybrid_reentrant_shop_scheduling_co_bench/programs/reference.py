import random


def solve(
    n_jobs: int, n_machines: int, init_time: int, setup_times: list[int], processing_times: list[int]
) -> dict[str, list[int]]:
    """Each next job to the machine with least to do (Graham, 1966), then simulated annealing (Kirkpatrick, Gelatt,
    Vecchi, 1983): a job changes its machine, or its place on the server."""
    rng = random.Random(1)
    load, machine = [0] * n_machines, []
    for job in range(n_jobs):
        machine.append(load.index(min(load)))
        load[machine[job]] += init_time + processing_times[job]
    order = list(range(n_jobs))
    length = makespan(order, machine, n_machines, init_time, setup_times, processing_times)
    best = (length, order, machine)
    heat = 20.0
    for _ in range(4000):
        heat *= 0.9985
        trial, moved = list(order), list(machine)
        if rng.random() < 0.5:
            trial.insert(rng.randrange(n_jobs), trial.pop(rng.randrange(n_jobs)))
        elif rng.random() < 0.5:
            moved[rng.randrange(n_jobs)] = rng.randrange(n_machines)
        else:
            i, j = rng.randrange(n_jobs), rng.randrange(n_jobs)
            moved[i], moved[j] = moved[j], moved[i]
        found = makespan(trial, moved, n_machines, init_time, setup_times, processing_times)
        if found <= length + heat * rng.expovariate(1.0):
            length, order, machine = found, trial, moved
            best = min(best, (length, order, machine))
    return {"permutation": best[1], "batch_assignment": best[2]}


def makespan(order, machine, n_machines, init_time, setup_times, processing_times):
    free, ready = [0] * n_machines, []
    for on in machine:
        free[on] += init_time
        ready.append(free[on])
    now = 0
    for job in order:
        now = (now if now > ready[job] else ready[job]) + setup_times[job]
        ready[job] = now
    for job, on in enumerate(machine):
        free[on] = (free[on] if free[on] > ready[job] else ready[job]) + processing_times[job]
    return max(free)
