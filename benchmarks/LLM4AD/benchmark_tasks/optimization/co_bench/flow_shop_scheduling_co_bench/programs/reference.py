import random


def solve(n: int, m: int, matrix: list[list[int]]) -> list[int]:
    """Insertion of long jobs first (Nawaz, Enscore, Ham, 1983) with Taillard's (1990) evaluation of all places at once,
    then iterated greedy: a few jobs are taken out and inserted anew (Ruiz, Stuetzle, 2007)."""
    rng = random.Random(1)
    order = []
    for job in sorted(range(n), key=lambda j: -sum(matrix[j])):
        order, length = inserted(order, job, matrix, m)
    best, shortest = order, length
    for _ in range(15 if n > 3 else 0):
        rest = list(order)
        taken = [rest.pop(rng.randrange(len(rest))) for _ in range(3)]
        for job in taken:
            rest, found = inserted(rest, job, matrix, m)
        if found <= length:
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
