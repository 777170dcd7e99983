import random

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 12, 4: 80, 5: 700}[LEVEL]
"""Of iterated greedy; fewer of large instances, where each takes longer."""


def solve(n: int, m: int, matrix: list[list[int]]) -> list[int]:
    """Insertion of long jobs first (Nawaz, Enscore, Ham, 1983) with Taillard's (1990) evaluation of all places at once,
    then iterated greedy: a few jobs are taken out and inserted anew, then every job once; what is a little worse may
    be kept (Ruiz, Stuetzle, 2007)."""
    rng = random.Random(1)
    order, length = [], 0
    for job in range(n) if LEVEL == 1 else sorted(range(n), key=lambda j: -sum(matrix[j])):
        order, length = inserted(order, job, matrix, m)
    best, shortest = order, length
    slack = 0.004 * sum(map(sum, matrix)) / (n * m) * n / 10  # in the mean of what is accepted
    for _ in range(min(ROUNDS, 2 * n * m, 40_000_000 // (n * n * m)) if n > 3 else 0):
        rest = list(order)
        taken = [rest.pop(rng.randrange(len(rest))) for _ in range(3)]
        for job in taken:
            rest, found = inserted(rest, job, matrix, m)
        if LEVEL > 3:
            for job in rng.sample(rest, min(n, 10)):
                k = rest.index(job)
                trial, other = inserted(rest[:k] + rest[k + 1 :], job, matrix, m)
                if other < found:
                    rest, found = trial, other
        if found <= length + (slack * rng.expovariate(1.0) if LEVEL > 3 else 0):
            order, length = rest, found
        if found < shortest:
            best, shortest = rest, found
    return best


def inserted(order, job, matrix, m):
    """The order with `job` at the best place, and its makespan."""
    heads, tails = [[0] * m], [[0] * m]
    for other in order:
        heads.append(stepped(heads[-1], matrix[other]))
    for other in reversed(order):
        tails.append(stepped(tails[-1], matrix[other][::-1]))
    tails.reverse()
    place, length = 0, None
    for i, head in enumerate(heads):
        ends = stepped(head, matrix[job])
        found = max(end + tail for end, tail in zip(ends, reversed(tails[i]), strict=True))
        if length is None or found < length:
            place, length = i, found
    return [*order[:place], job, *order[place:]], length


def stepped(before, times):
    now, ends = 0, []
    for free, time in zip(before, times, strict=True):
        now = (now if now > free else free) + time
        ends.append(now)
    return ends
