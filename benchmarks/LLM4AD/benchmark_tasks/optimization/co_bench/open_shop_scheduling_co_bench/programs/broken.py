def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Each machine works through the jobs without a pause; that a job cannot be in two places is forgotten."""
    free = [0] * n_machines
    starts = [[0] * n_machines for _ in range(n_jobs)]
    for job in range(n_jobs):
        for k, machine in enumerate(machines[job]):
            starts[job][k] = free[machine]
            free[machine] += times[job][k]
    return starts
