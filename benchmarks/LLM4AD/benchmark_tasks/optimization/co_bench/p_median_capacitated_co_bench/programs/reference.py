import numpy as np


def solve(n: int, p: int, Q: float, points: np.ndarray, demands: np.ndarray) -> list[int]:
    """Alternates between assigning customers by regret and moving each median to the middle of its cluster (Mulvey and
    Beck, 1984), from several starts; shifts and swaps of customers end each round."""
    between = points[:, None, :] - points[None, :, :]
    dist = np.floor(np.sqrt((between**2).sum(axis=2)))
    rng = np.random.default_rng(1)
    best, least = None, np.inf
    for start in range(12):
        medians, before = spread(dist, p, rng, start), None
        for _ in range(10):
            of = by_regret(dist[medians], demands, Q)
            if of is None:
                break
            of = descent(of, dist[medians], demands, Q)
            medians = [middle(dist, np.flatnonzero(of == i), m) for i, m in enumerate(medians)]
            cost = dist[np.array(medians)[of], np.arange(n)].sum()
            if cost < least:
                best, least = np.array(medians)[of].tolist(), cost
            if before is not None and cost >= before:
                break
            before = cost
    return best if best is not None else fallback(dist, p, Q, demands)


def spread(dist, p, rng, start):
    """Medians far from one another; the first at random, the next with a probability that grows with the distance."""
    medians = [int(rng.integers(len(dist)))]
    while len(medians) < p:
        near = dist[medians].min(axis=0) ** (1 + start % 2) + 1e-9
        near[medians] = 0
        medians.append(int(rng.choice(len(dist), p=near / near.sum())))
    return medians


def middle(dist, cluster, median):
    return int(cluster[dist[np.ix_(cluster, cluster)].sum(axis=1).argmin()]) if len(cluster) else median


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


def fallback(dist, p, capacity, demands):
    """Customers by demand, to the median with the most room."""
    room, of = np.full(p, float(capacity)), [0] * len(dist)
    for customer in np.argsort(-demands, kind="stable").tolist():
        of[customer] = int(room.argmax())
        room[of[customer]] -= demands[customer]
    return of
