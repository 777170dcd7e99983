def solve(jobs: list[tuple[int, int, int]], h: float) -> list[int]:
    """Jobs that cost little when early go first; from the due date on, those that cost most for each unit of their time
    when late."""
    due = int(h * sum(p for p, a, b in jobs) + 1e-9)
    rest = sorted(range(len(jobs)), key=lambda j: jobs[j][1])
    order, now = [], 0
    while rest and now < due:
        order.append(rest.pop(0))
        now += jobs[order[-1]][0]
    return order + sorted(rest, key=lambda j: jobs[j][0] / jobs[j][2])
