def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """One operation after another, job by job."""
    now, starts = 0, []
    for job in times:
        starts.append([])
        for time in job:
            starts[-1].append(now)
            now += time
    return starts
