WEIGHTS = (0.0, 1.0, 3.0)
"""Of the time that a machine waits for a job, against the work that is left of the job."""
MOST = 600_000
"""Operations that are looked at in one call, about."""


def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """Rollout (Bertsekas, Tsitsiklis, Wu, 1997): for each operation of the conflict set of Giffler and Thompson (1960)
    the schedule is completed by most work remaining, with three weights of waiting. The operation whose best schedule
    ends first is chosen."""
    times, machines = current_status["times"].tolist(), current_status["machines"].tolist()
    left = [sum(row[k:]) for row, k in zip(times, current_status["next_operation"], strict=True)]
    state = [current_status[name] for name in ("next_operation", "machine_status", "job_status")] + [left]
    _, rivals = conflict(times, machines, *state[:3], [job for job, _, _ in feasible_operations])
    rivals.sort(key=lambda job: -left[job])
    work = len(WEIGHTS) * len(feasible_operations) * sum(len(row) - k for row, k in zip(times, state[0], strict=True))
    rivals = rivals[: max(1, MOST // work)]
    if len(rivals) > 1:
        rivals.sort(key=lambda job: min(completed(job, times, machines, *state, weight) for weight in WEIGHTS))
    return next(operation for operation in feasible_operations if operation[0] == rivals[0])


def conflict(times, machines, following, free, ready, jobs):
    """The machine of the operation that can end first, and the jobs whose operations could begin there before that."""
    first = None
    for job in jobs:
        machine = machines[job][following[job]]
        end = max(ready[job], free[machine]) + times[job][following[job]]
        if first is None or end < first:
            first, where = end, machine
    return where, [
        job for job in jobs if machines[job][following[job]] == where and max(ready[job], free[where]) < first
    ]


def completed(job, times, machines, following, free, ready, left, weight):
    """When the schedule ends that begins with the next operation of a job."""
    following, free, ready, left = following[:], free[:], ready[:], left[:]
    jobs = [j for j, k in enumerate(following) if k < len(times[j])]
    while True:
        machine, time = machines[job][following[job]], times[job][following[job]]
        ready[job] = free[machine] = max(ready[job], free[machine]) + time
        left[job] -= time
        following[job] += 1
        if following[job] == len(times[job]):
            jobs.remove(job)
            if not jobs:
                return max(ready)
        where, rivals = conflict(times, machines, following, free, ready, jobs)
        job = max(rivals, key=lambda j: left[j] - weight * max(0, ready[j] - free[where]))
