def solve(jobs: list[tuple[int, int, int]], h: float) -> list[int]:
    """Only the jobs that can end by the due date; the others are left out."""
    due = int(h * sum(p for p, a, b in jobs) + 1e-9)
    order, now = [], 0
    for job, (p, _, _) in enumerate(jobs):
        if now + p <= due:
            order.append(job)
            now += p
    return order
