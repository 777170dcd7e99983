def solve(jobs: list[tuple[int, int, int]], h: float) -> list[int]:
    """The dearest when late go last."""
    return sorted(range(len(jobs)), key=lambda j: jobs[j][2] / jobs[j][0])
