def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Whatever can start first does: of the operations whose turn it is in their jobs the one that can start earliest,
    the shortest of those that could at the same time."""
    free, ready, following = [0] * n_machines, [0] * n_jobs, [0] * n_jobs
    starts = [[0] * n_machines for _ in range(n_jobs)]
    for _ in range(n_jobs * n_machines):
        best = None
        for j in range(n_jobs):
            if following[j] < n_machines:
                k = following[j]
                start = max(ready[j], free[machines[j][k]])
                if best is None or (start, times[j][k]) < best[:2]:
                    best = (start, times[j][k], j)
        start, time, job = best
        k = following[job]
        starts[job][k] = start
        ready[job] = free[machines[job][k]] = start + time
        following[job] += 1
    return starts
