import numpy as np

LEVEL = 5
PASSES = {1: 0.1, 2: 0.4, 3: 1, 4: 3, 5: 20}[LEVEL]  # passes over all countries


def solve(
    n: int,
    target: int,
    tax_codes: np.ndarray,
    foreign_rates: np.ndarray,
    domestic_rates: np.ndarray,
    profits: np.ndarray,
    withholding: np.ndarray,
) -> list[int]:
    """Best ways to the target by Dijkstra (1959), or all in its hand, as the first tree; then a local search that gives
    countries, also those without a profit, other owners while more arrives: the neighbourhood of Anken and Beasley
    (2012). Then the same again and again after a few countries got other owners at random (iterated local search)."""
    net = (profits * (1 - domestic_rates)).tolist()
    data = (tax_codes.tolist(), foreign_rates.tolist(), profits.tolist(), net, (1 - withholding).tolist())
    starts = [[target] * n, best_ways((1 - withholding) * np.where(tax_codes == 2, 1 - foreign_rates, 1.0), target)]
    for owners in starts:
        owners[target] = -1
    best = max(starts, key=lambda owners: arriving(owners, target, data))
    steps = PASSES * min(n, 60**3 / n**2)  # each takes a time in proportion to n * n
    best, most, steps = improved(best, target, data, steps, n)
    rng = np.random.default_rng(1)
    while steps > 0:
        owners = best[:]
        for i in rng.permutation(n)[: 2 + int(rng.integers(4))].tolist():
            free = sorted(set(range(n)) - below(owners, i))
            if i != target and free:
                owners[i] = free[int(rng.integers(len(free)))]
        owners, value, steps = improved(owners, target, data, steps, n)
        if value >= most:
            best, most = owners, value
    return pruned(best, profits)


def best_ways(step, target):
    n = len(step)
    share, owner, left = np.zeros(n), np.full(n, target), np.ones(n, dtype=bool)
    share[target] = 1
    while left.any():
        j = int(np.where(left, share, -1).argmax())
        left[j] = False
        better = left & (step[:, j] * share[j] > share)
        share[better], owner[better] = (step[:, j] * share[j])[better], j
    return owner.tolist()


def improved(owners, target, data, steps, idle):
    """Owners changed one by one, each for the best one, until none helps or the steps are used up."""
    n, value, i = len(owners), arriving(owners, target, data), 0
    while idle > 0 and steps > 0:
        steps, idle = steps - 1, idle - 1
        if i != target:
            old, best = owners[i], None
            barred = below(owners, i)
            for j in range(n):
                if j != old and j not in barred:
                    owners[i] = j
                    other = arriving(owners, target, data)
                    if other > value + 1e-9:
                        best, value, idle = j, other, n
            owners[i] = old if best is None else best
        i = (i + 1) % n
    return owners, value, steps


def below(owners, i):
    found = {i}
    for j in range(len(owners)):
        path = []
        while j >= 0 and j not in found:
            path.append(j)
            j = owners[j]
        if j in found:
            found.update(path)
    return found


def arriving(owners, target, data):
    codes, foreign, profits, net, through = data
    n = len(owners)
    count = [0] * n
    for j in owners:
        if j >= 0:
            count[j] += 1
    kept, got, earned, top = net[:], [0.0] * n, [0.0] * n, [0.0] * n
    order = [i for i in range(n) if count[i] == 0]
    for i in order:
        code, f = codes[i], foreign[i]
        if code == 2:
            tax = f * got[i]
        elif code == 3:
            tax = top[i]
        elif code == 4:
            tax = max(0.0, got[i] - (1 - f) * earned[i])
        else:
            tax = 0.0
        kept[i] += got[i] - tax
        j = owners[i]
        if j >= 0:
            paid, below = kept[i] * through[i][j], earned[i] + profits[i]
            got[j] += paid
            earned[j] += below
            top[j] += max(0.0, paid - (1 - foreign[j]) * below)
            count[j] -= 1
            if count[j] == 0:
                order.append(j)
    return kept[target]


def pruned(owners, profits):
    """Without branches in which there is no profit."""
    needed = set()
    for i in range(len(owners)):
        if profits[i] > 0:
            while i >= 0 and i not in needed:
                needed.add(i)
                i = owners[i]
    return [j if i in needed else -1 for i, j in enumerate(owners)]
