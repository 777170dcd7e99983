def solve(jobs: list[tuple[int, int, int]], h: float) -> list[int]:
    """V-shaped schedules (Biskup, Feldmann, 2001): a set of early jobs, those with much time for their early penalty
    first, then the others, those with little time for their late penalty first. The set is improved by moving jobs in
    and out and by exchanging two."""
    n = len(jobs)
    due = int(h * sum(p for p, a, b in jobs) + 1e-9)
    down = sorted(range(n), key=lambda j: -jobs[j][0] / max(1, jobs[j][1]))
    up = sorted(range(n), key=lambda j: jobs[j][0] / max(1, jobs[j][2]))
    early, left = [False] * n, due
    for job in sorted(range(n), key=lambda j: jobs[j][1] / max(1, jobs[j][2])):
        if jobs[job][0] <= left:
            early[job] = True
            left -= jobs[job][0]

    def order():
        return [j for j in down if early[j]] + [j for j in up if not early[j]]

    def cost():
        now = total = 0
        for job in order():
            p, a, b = jobs[job]
            now += p
            total += a * (due - now) if now < due else b * (now - due)
        return total

    moves = [(i,) for i in range(n)] + [(i, j) for i in range(n) for j in range(i)]
    best, better, sweeps = cost(), True, 0
    trials = 12_000_000 // n  # each takes a time in proportion to n
    while better and sweeps < 12:
        better = False
        sweeps += 1
        for move in moves:
            if len(move) == 2 and early[move[0]] == early[move[1]]:
                continue
            trials -= 1
            if trials < 0:
                return order()
            for job in move:
                early[job] = not early[job]
            now = cost()
            if now < best:
                best, better = now, True
            else:
                for job in move:
                    early[job] = not early[job]
    return order()
