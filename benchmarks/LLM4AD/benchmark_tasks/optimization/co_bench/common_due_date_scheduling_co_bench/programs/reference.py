import random

LEVEL = 5
TRIALS = {1: 0, 2: 60, 3: 400, 4: 4000, 5: 200_000}[LEVEL]
"""Tried moves; fewer of many jobs, where each takes longer."""


def solve(jobs: list[tuple[int, int, int]], h: float) -> list[int]:
    """V-shaped schedules (Biskup, Feldmann, 2001): a set of early jobs, those with much time for their early penalty
    first, then the others, those with little time for their late penalty first. The set is improved by moving jobs in
    and out and by exchanging two; where that ends, a few jobs are exchanged at random. In the end each job is tried
    across the due date."""
    rng, n = random.Random(1), len(jobs)
    due = int(h * sum(p for p, a, b in jobs) + 1e-9)
    down = sorted(range(n), key=lambda j: -jobs[j][0] / max(1, jobs[j][1]))
    up = sorted(range(n), key=lambda j: jobs[j][0] / max(1, jobs[j][2]))
    early, left = [False] * n, due
    for job in sorted(range(n), key=lambda j: jobs[j][1] / max(1, jobs[j][2])):
        if jobs[job][0] <= left:
            early[job] = True
            left -= jobs[job][0]

    def order(early):
        return [j for j in down if early[j]] + [j for j in up if not early[j]]

    def cost(order):
        now = total = 0
        for job in order:
            p, a, b = jobs[job]
            now += p
            total += a * (due - now) if now < due else b * (now - due)
        return total

    moves = [(i,) for i in range(n)] + [(i, j) for i in range(n) for j in range(i)]
    least = now = cost(order(early))
    best = early[:]
    trials, at, idle = min(TRIALS, 12_000_000 // n), 0, 0
    for _ in range(trials):
        move = moves[at]
        at = (at + 1) % len(moves)
        idle += 1
        if len(move) == 1 or early[move[0]] != early[move[1]]:
            for job in move:
                early[job] = not early[job]
            found = cost(order(early))
            if found < now:
                now, idle = found, 0
            else:
                for job in move:
                    early[job] = not early[job]
        if idle == len(moves):  # no move gains
            if now < least:
                least, best = now, early[:]
            early = best[:]
            for job in rng.sample(range(n), min(n, 4)):
                early[job] = not early[job]
            now, idle, at = cost(order(early)), 0, 0
    chosen = order(best if least <= now else early)
    count = sum(best if least <= now else early)
    if LEVEL < 5:
        return chosen
    across = [chosen[:count] + [job] + [j for j in chosen[count:] if j != job] for job in chosen[count:]]
    return min([chosen, *across], key=cost)
