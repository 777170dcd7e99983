import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 12, 5: 120}[LEVEL]
STEPS = 120


def solve(n: int, p: int, Q: float, points: np.ndarray, demands: np.ndarray) -> list[int]:
    """Alternates between assigning customers by regret and moving each median to the middle of its cluster (Mulvey and
    Beck, 1984), from several starts, with shifts and swaps of customers in each round. Then medians are exchanged, one
    at a time, and a tabu search (Osman and Christofides, 1994) makes the clusters fit again."""
    between = points[:, None, :] - points[None, :, :]
    dist = np.floor(np.sqrt((between**2).sum(axis=2)))
    demands, rng = demands.astype(float), np.random.default_rng(1)
    found = [alternated(dist, demands, Q, spread(dist, p, rng, start)) for start in range(1 if LEVEL <= 2 else 8)]
    medians, of = min([f for f in found if f] or [fallback(dist, p, Q, demands)], key=lambda f: cost(dist, *f))
    for _ in range(min(ROUNDS, ROUNDS * n // 100, ROUNDS * 48_000 // n**2)):
        tried = medians.copy()
        new = int(rng.choice(np.setdiff1d(np.arange(n), medians)))
        near = np.array([np.delete(np.append(dist[medians], dist[[new]], axis=0), i, axis=0).min(axis=0).sum()
                         for i in range(p)])  # fmt: skip
        tried[int((near * rng.uniform(1, 1.1, p)).argmin())] = new
        for _ in range(3):
            start = of if (tried == medians).all() else dist[tried].argmin(axis=0)
            moved = tabu(dist[tried], demands, Q, start, rng)
            if moved is None:
                break
            tried = centred(dist, tried, moved)
            gain = cost(dist, medians, of) - cost(dist, tried, moved)
            if gain >= 0:
                medians, of = tried, moved
            if gain <= 0:
                break
    return medians[of].tolist()


def cost(dist, medians, of):
    return dist[medians[of], np.arange(len(of))].sum()


def alternated(dist, demands, capacity, medians):
    """Medians and the number of the median of each customer; None if some do not fit."""
    best = None
    for _ in range(1 if LEVEL == 1 else 10):
        of = by_regret(dist[medians], demands, capacity)
        if of is None:
            break
        if LEVEL >= 2:
            of = descent(of, dist[medians], demands, capacity)
            medians = centred(dist, medians, of)
        if best is not None and cost(dist, medians, of) >= cost(dist, *best):
            break
        best = medians, of
    return best


def spread(dist, p, rng, start):
    """Medians far from one another; the first at random, the next with a probability that grows with the distance."""
    medians = [int(rng.integers(len(dist)))]
    while len(medians) < p:
        near = dist[medians].min(axis=0) ** (1 + start % 2) + 1e-9
        near[medians] = 0
        medians.append(int(rng.choice(len(dist), p=near / near.sum())))
    return np.array(medians)


def centred(dist, medians, of):
    """The customer in the middle of each cluster."""
    medians = medians.copy()
    for number in range(len(medians)):
        cluster = np.flatnonzero(of == number)
        if len(cluster):
            medians[number] = cluster[dist[np.ix_(cluster, cluster)].sum(axis=1).argmin()]
    return medians


def by_regret(dist, demands, capacity):
    """Customers who lose most if they miss their nearest median first; None if some do not fit."""
    p, n = dist.shape
    room, left, of = np.full(p, float(capacity)), np.ones(n, dtype=bool), np.zeros(n, dtype=int)
    for _ in range(n):
        open_dist = np.where(demands <= room[:, None], dist, 1e9)
        two = np.partition(open_dist, 1, axis=0)[:2] if p > 1 else np.vstack([open_dist, open_dist])
        customer = int(np.where(left, two[1] - two[0] + demands * 1e-3, -1).argmax())
        of[customer] = open_dist[:, customer].argmin()
        if open_dist[of[customer], customer] == 1e9:
            return None
        room[of[customer]] -= demands[customer]
        left[customer] = False
    return of


def descent(of, dist, demands, capacity):
    """The best shifts and swaps of customers that fit, until none helps."""
    of, everyone = of.copy(), np.arange(len(of))
    while True:
        room = capacity - np.bincount(of, demands, minlength=len(dist))
        paid = dist[of, everyone]
        shift = np.where(demands <= room[:, None], dist - paid, 0)
        fits = demands[None, :] - demands[:, None] <= room[of][:, None]
        change = dist[of] - paid[:, None]  # [j, k]: customer k at the median of j, less what j paid
        swap = np.where(fits & fits.T, change + change.T, 0)
        if min(shift.min(), swap.min()) > -1e-9:
            return of
        if shift.min() <= swap.min():
            median, customer = np.unravel_index(shift.argmin(), shift.shape)
            of[customer] = median
        else:
            one, other = np.unravel_index(swap.argmin(), swap.shape)
            of[[one, other]] = of[[other, one]]


def tabu(dist, demands, capacity, of, rng):
    """The best feasible assignment on a way of shifts and swaps that may exceed capacities, at a price that rises while
    they are exceeded; None if there is none on it."""
    p, n = dist.shape
    of, everyone, until = of.copy(), np.arange(n), np.zeros(n, dtype=int)
    best, least, price = None, np.inf, np.full(p, dist.mean() / demands.mean() / 4)
    used, total = np.bincount(of, demands, minlength=p), dist[of, everyone].sum()
    for step in range(STEPS):
        over, held = np.maximum(used - capacity, 0), until > step
        paid, spare = dist[of, everyone], (used - capacity)[of] - demands
        away = price[of] * (np.maximum(spare, 0) - over[of]) - paid
        shift = dist + price[:, None] * (np.maximum((used - capacity)[:, None] + demands, 0) - over[:, None]) + away
        shift[:, held] = np.inf
        shift[of, everyone] = np.inf
        median, customer = divmod(int(shift.argmin()), n)
        gain, moves = shift[median, customer], [(customer, median)]
        if gain > -1e-9:
            part = dist[of] + price[of][:, None] * (np.maximum(spare[:, None] + demands, 0) - over[of][:, None])
            swap = part - paid[:, None]
            swap = swap + swap.T
            swap[of[:, None] == of] = np.inf
            swap[held] = np.inf
            swap[:, held] = np.inf
            one, other = divmod(int(swap.argmin()), n)
            if swap[one, other] < gain:
                gain, moves = swap[one, other], [(one, of[other]), (other, of[one])]
        if gain > -1e-9:
            price = price * np.where(over > 0, 1.3, 0.95)
        for customer, median in moves:
            used[of[customer]] -= demands[customer]
            used[median] += demands[customer]
            total += dist[median, customer] - dist[of[customer], customer]
            of[customer], until[customer] = median, step + 5 + rng.integers(10)
        if total < least - 1e-9 and (used <= capacity).all():
            best, least = of.copy(), total
    return best


def fallback(dist, p, capacity, demands):
    """Customers by demand, to the median with the most room."""
    room, of = np.full(p, float(capacity)), np.zeros(len(dist), dtype=int)
    for customer in np.argsort(-demands, kind="stable").tolist():
        of[customer] = room.argmax()
        room[of[customer]] -= demands[customer]
    return np.arange(p), of
