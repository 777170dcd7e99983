def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Each job as if it were alone: machines are asked to do several operations at once."""
    starts = []
    for job in times:
        now, row = 0, []
        for time in job:
            row.append(now)
            now += time
        starts.append(row)
    return starts
