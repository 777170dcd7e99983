def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Operation by operation as they are listed, first of every job, then second: each when both its job and its
    machine have done all that came before it in this list."""
    free, ready = [0] * n_machines, [0] * n_jobs
    starts = [[0] * n_machines for _ in range(n_jobs)]
    for k in range(n_machines):
        for job in range(n_jobs):
            machine = machines[job][k]
            starts[job][k] = max(ready[job], free[machine])
            ready[job] = free[machine] = starts[job][k] + times[job][k]
    return starts
