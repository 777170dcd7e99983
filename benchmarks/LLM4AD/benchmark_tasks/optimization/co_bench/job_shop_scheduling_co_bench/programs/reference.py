import random
from itertools import pairwise

LEVEL = 5
STEPS = {1: 0, 2: 30, 3: 250, 4: 1500, 5: 9000}[LEVEL]
"""Moves of the tabu search, no more than 60 for each operation; fewer of large instances, where each takes longer."""
PATIENCE = 600
"""Moves without a new best schedule, after which the search goes back to an earlier one."""


def solve(n_jobs: int, n_machines: int, times: list[list[int]], machines: list[list[int]]) -> list[list[int]]:
    """Most work remaining (Giffler, Thompson, 1960), then tabu search over moves to the ends of the blocks of a
    critical path (Balas, Vazacopoulos, 1998), which goes back to good schedules (Nowicki, Smutnicki, 1996)."""
    rng, m, size = random.Random(1), n_machines, n_jobs * n_machines
    time = [t for row in times for t in row] + [0]  # operation k of job j is j * m + k; `size` stands for none
    queues = dispatched(n_jobs, m, times, machines)
    graph = Graph(queues, time, m, size)
    best, best_heads, good = graph.length, graph.heads, [list(map(list, queues))]
    tabu, idle = {}, 0
    for turn in range(min(STEPS, 60 * size, 2_500_000 // size)):
        moves = []
        for block in graph.blocks(rng):
            for queue, i, j, value in graph.moves(block):
                new = queue[i + 1 : j + 1] if i < j else [queue[i]]
                old = [queue[i]] if i < j else queue[j:i]
                until = max(tabu.get((b, a), -1) for a in old for b in new)
                banned = until >= turn and value >= best
                moves.append((until if banned else -1, value, rng.random(), queue, i, j))
        if not moves:
            break
        _, _, _, queue, i, j = min(moves, key=lambda move: move[:3])  # if all are banned, for the least time
        tenure = turn + 10 + rng.randrange(10)
        for other in queue[i + 1 : j + 1]:
            tabu[queue[i], other] = tenure
        for other in queue[j:i]:
            tabu[other, queue[i]] = tenure
        queue.insert(j, queue.pop(i))
        graph.set(queues)
        idle += 1
        if graph.length < best:
            best, best_heads, idle = graph.length, graph.heads, 0
            good = [*good[-4:], list(map(list, queues))]
        elif idle >= PATIENCE:
            idle, tabu = 0, {}
            queues = list(map(list, rng.choice(good)))
            graph.set(queues)
            for _ in range(8):  # a few swaps on critical paths lead to another place
                pairs = [(block, k) for block in graph.blocks(rng) for k in range(len(block) - 1)]
                if not pairs:
                    break
                block, k = rng.choice(pairs)
                queue = next(queue for queue in queues if block[0] in queue)
                i = queue.index(block[k])
                queue[i], queue[i + 1] = queue[i + 1], queue[i]
                graph.set(queues)
    return [best_heads[j * m : (j + 1) * m] for j in range(n_jobs)]


def dispatched(n, m, times, machines):
    """The order of the operations on each machine in an active schedule; where LEVEL is 1, in one without delays."""
    free, ready, k = [0] * m, [0] * n, [0] * n
    left = [sum(row) for row in times]
    queues = [[] for _ in range(m)]
    for _ in range(n * m):
        unfinished = [j for j in range(n) if k[j] < m]
        starts = {j: max(ready[j], free[machines[j][k[j]]]) for j in unfinished}
        ends = {j: starts[j] + times[j][k[j]] for j in unfinished}
        first = min(unfinished, key=(starts if LEVEL == 1 else ends).get)
        machine = machines[first][k[first]]
        limit = starts[first] + 1 if LEVEL == 1 else ends[first]
        rivals = [j for j in unfinished if machines[j][k[j]] == machine and starts[j] < limit]
        job = max(rivals, key=left.__getitem__)
        queues[machine].append(job * m + k[job])
        ready[job] = free[machine] = ends[job]
        left[job] -= times[job][k[job]]
        k[job] += 1
    return queues


class Graph:
    """Longest ways to (`heads`) and from (`tails`, with the operation itself) every operation in given queues."""

    def __init__(self, queues, time, m, size):
        self.time, self.size = time, size
        self.job_before = [o - 1 if o % m else size for o in range(size)] + [size]
        self.job_after = [o + 1 if (o + 1) % m else size for o in range(size)] + [size]
        self.set(queues)

    def set(self, queues):
        size, time, job_before, job_after = self.size, self.time, self.job_before, self.job_after
        before, after = [size] * (size + 1), [size] * (size + 1)
        for queue in queues:
            for a, b in pairwise(queue):
                before[b], after[a] = a, b
        waits = [(a < size) + (b < size) for a, b in zip(job_before, before, strict=True)]
        order = [o for o in range(size) if not waits[o]]
        heads, tails = [0] * (size + 1), [0] * (size + 1)
        for o in order:
            a, b = job_before[o], before[o]
            head, other = heads[a] + time[a], heads[b] + time[b]
            heads[o] = head if head > other else other
            for follower in (job_after[o], after[o]):
                if follower < size:
                    waits[follower] -= 1
                    if not waits[follower]:
                        order.append(follower)
        for o in reversed(order):
            a, b = tails[job_after[o]], tails[after[o]]
            tails[o] = time[o] + (a if a > b else b)
        self.queues, self.before, self.after, self.heads, self.tails = queues, before, after, heads, tails
        self.where = {o: queue for queue in queues for o in queue}
        self.length = max(tails)

    def blocks(self, rng):
        """Operations that follow one another on a machine, on a critical path drawn at random."""
        heads, tails, size = self.heads, self.tails, self.size
        here = rng.choice([o for o in range(size) if not heads[o] and tails[o] == self.length])
        found = [[here]]
        while True:
            rest = tails[here] - self.time[here]
            on_machine, in_job = self.after[here], self.job_after[here]
            ways = [o for o in (on_machine, in_job) if o < size and rest and tails[o] == rest]
            if not ways:
                return [block for block in found if len(block) > 1]
            here = ways[0] if len(ways) == 1 else rng.choice(ways)
            if here == on_machine and here != in_job:
                found[-1].append(here)
            else:
                found.append([here])

    def moves(self, block):
        """Moves of an operation behind the last of the block or before the first, and of these into the block, that
        surely close no circle: the queue, the places from and to, and an estimate of the makespan."""
        queue, heads, tails, time = self.where[block[0]], self.heads, self.tails, self.time
        start, last = queue.index(block[0]), len(block) - 1
        pairs = {(i, last) for i in range(last)} | {(0, j) for j in range(1, last + 1)}
        for i, j in sorted(pairs):
            u, v = block[i], block[j]
            after_u, before_v = self.job_after[u], self.job_before[v]
            if tails[v] + time[after_u] > tails[after_u]:
                yield queue, start + i, start + j, self.estimate([*block[i + 1 : j + 1], u], u, v)
            if j - i > 1 and heads[u] + time[u] > heads[before_v]:
                yield queue, start + j, start + i, self.estimate([v, *block[i:j]], u, v)

    def estimate(self, row, first, last):
        """The longest way through the operations of `row`, which stood from `first` to `last` (Balas, Vazacopoulos)."""
        heads, tails, time = self.heads, self.tails, self.time
        before, after = self.before[first], self.after[last]
        now, new = heads[before] + time[before], []
        for o in row:
            a = self.job_before[o]
            ready = heads[a] + time[a]
            new.append(ready if ready > now else now)
            now = new[-1] + time[o]
        rest, longest = tails[after], 0
        for o, head in zip(reversed(row), reversed(new), strict=True):
            a = tails[self.job_after[o]]
            rest = time[o] + (a if a > rest else rest)
            if head + rest > longest:
                longest = head + rest
        return longest
