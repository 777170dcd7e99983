from itertools import pairwise


def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Most work remaining (Giffler, Thompson, 1960), then tabu search over swaps at the ends of the blocks of a
    critical path (Nowicki, Smutnicki, 1996)."""
    queues = dispatched(n_jobs, n_machines, times, machines)
    best_length, best, tabu = None, None, {}
    for turn in range(500):
        starts, order = timed(queues, times, machines, n_jobs, n_machines)
        length = max(starts[j][-1] + times[j][-1] for j in range(n_jobs))
        if best_length is None or length < best_length:
            best_length, best = length, starts
        tails = tails_of(queues, order, times, machines)
        moves = []
        for machine, i in swaps(queues, starts, tails, times, machines, length):
            value = estimate(queues[machine], i, starts, tails, times)
            until = tabu.get((queues[machine][i + 1], queues[machine][i]), -1)
            banned = until >= turn and value >= best_length
            moves.append((until if banned else -1, value, machine, i))  # if all are banned, the one for the least time
        if not moves:
            break
        _, _, machine, i = min(moves)
        queue = queues[machine]
        tabu[queue[i], queue[i + 1]] = turn + 12
        queue[i], queue[i + 1] = queue[i + 1], queue[i]
    return best


def dispatched(n, m, times, machines):
    """The order of the operations (job, k) on each machine in an active schedule."""
    free, ready, k = [0] * m, [0] * n, [0] * n
    left = [sum(row) for row in times]
    queues = [[] for _ in range(m)]
    for _ in range(n * m):
        open_jobs = [j for j in range(n) if k[j] < m]
        ends = {j: max(ready[j], free[machines[j][k[j]]]) + times[j][k[j]] for j in open_jobs}
        first = min(open_jobs, key=ends.get)
        machine = machines[first][k[first]]
        rivals = [j for j in open_jobs if machines[j][k[j]] == machine and ends[j] - times[j][k[j]] < ends[first]]
        job = max(rivals, key=left.__getitem__)
        queues[machine].append((job, k[job]))
        ready[job] = free[machine] = ends[job]
        left[job] -= times[job][k[job]]
        k[job] += 1
    return queues


def timed(queues, times, machines, n, m):
    """Earliest starts, and the operations in an order that respects all waits."""
    starts = [[0] * m for _ in range(n)]
    at, k, ready, free, order = [0] * m, [0] * n, [0] * n, [0] * m, []
    stack = list(range(m))
    while stack:
        machine = stack.pop()
        while at[machine] < len(queues[machine]):
            job, place = queues[machine][at[machine]]
            if k[job] != place:
                break
            start = max(ready[job], free[machine])
            starts[job][place] = start
            ready[job] = free[machine] = start + times[job][place]
            order.append((job, place))
            at[machine] += 1
            k[job] += 1
            if k[job] < m:
                stack.append(machines[job][k[job]])
    return starts, order


def tails_of(queues, order, times, machines):
    """The longest way from the end of each operation to the end of all."""
    after = {a: b for queue in queues for a, b in pairwise(queue)}
    tails = [[0] * len(row) for row in times]
    for job, k in reversed(order):
        tail = times[job][k + 1] + tails[job][k + 1] if k + 1 < len(times[job]) else 0
        if (job, k) in after:
            j, i = after[job, k]
            tail = max(tail, times[j][i] + tails[j][i])
        tails[job][k] = tail
    return tails


def swaps(queues, starts, tails, times, machines, length):
    """Neighbours at the first or last place of a block of one critical path."""
    path = []
    now = 0
    critical = {}
    for machine, queue in enumerate(queues):
        for i, (j, k) in enumerate(queue):
            if starts[j][k] + times[j][k] + tails[j][k] == length:
                critical.setdefault(starts[j][k], []).append((machine, i))
    while now < length:
        here = critical[now]
        chosen = next((o for o in here if path and o[0] == path[-1][0] and o[1] == path[-1][1] + 1), None)
        if chosen is None and path:
            j, k = queues[path[-1][0]][path[-1][1]]
            chosen = next((o for o in here if queues[o[0]][o[1]] == (j, k + 1)), here[0])
        path.append(chosen or here[0])
        j, k = queues[path[-1][0]][path[-1][1]]
        now = starts[j][k] + times[j][k]
    blocks = [[path[0]]]
    for one in path[1:]:
        if one[0] == blocks[-1][-1][0]:
            blocks[-1].append(one)
        else:
            blocks.append([one])
    found = set()
    for number, block in enumerate(blocks):
        if len(block) > 1:
            if number > 0:
                found.add(block[0])
            if number < len(blocks) - 1:
                found.add(block[-2])
    return sorted(found)


def estimate(queue, i, starts, tails, times):
    """The longest way through the two swapped operations (Taillard, 1994)."""
    (ja, ka), (jb, kb) = queue[i], queue[i + 1]
    before = queue[i - 1] if i else None
    after = queue[i + 2] if i + 2 < len(queue) else None
    free = starts[before[0]][before[1]] + times[before[0]][before[1]] if before else 0
    rest = times[after[0]][after[1]] + tails[after[0]][after[1]] if after else 0
    start_b = max(free, starts[jb][kb - 1] + times[jb][kb - 1] if kb else 0)
    start_a = max(start_b + times[jb][kb], starts[ja][ka - 1] + times[ja][ka - 1] if ka else 0)
    tail_a = max(rest, times[ja][ka + 1] + tails[ja][ka + 1] if ka + 1 < len(times[ja]) else 0)
    tail_b = max(times[ja][ka] + tail_a, times[jb][kb + 1] + tails[jb][kb + 1] if kb + 1 < len(times[jb]) else 0)
    return max(start_b + times[jb][kb] + tail_b, start_a + times[ja][ka] + tail_a)
