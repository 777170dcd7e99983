def solve(n: int, m: int, matrix: list[list[int]]) -> list[int]:
    """The slope order backwards: jobs that keep the last machines waiting go first."""
    slope = [sum((2 * k - m + 1) * time for k, time in enumerate(job)) for job in matrix]
    return sorted(range(n), key=lambda j: slope[j])
