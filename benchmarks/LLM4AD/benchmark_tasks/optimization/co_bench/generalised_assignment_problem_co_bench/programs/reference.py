import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

LEVEL = 5
STEPS = {1: 0, 2: 0, 3: 0, 4: 500, 5: 6000}[LEVEL]


def solve(m: int, n: int, cost_matrix: np.ndarray, consumption_matrix: np.ndarray, capacities: np.ndarray) -> list[int]:
    """Linear relaxation, rounded; then tabu search over shifts and swaps of jobs (Osman, 1995) that may exceed
    capacities at prices that rise while they are exceeded (Yagiura, Ibaraki and Glover, 2004)."""
    c, a, b = cost_matrix.astype(float), consumption_matrix.astype(float), capacities.astype(float)
    scale = c.mean() / a.mean()
    starts = [by_regret(c + price * scale * a, a, b) for price in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)] + [a.argmin(axis=0)]
    if LEVEL >= 3:
        shares, prices = relaxed(c, a, b)
        starts = [shares.argmax(axis=0), *starts]
        starts = [by_regret(c + np.where(shares > 1 - 1e-6, -1e6, prices[:, None] * a), a, b), *starts]
    if LEVEL >= 2:
        starts = [None if s is None else descent(c, a, b, s) for s in starts]
    found = [s for s in starts if s is not None and (load(a, s) <= b).all()]
    best = min(found or [a.argmin(axis=0)], key=lambda s: total(c, s))
    if STEPS:
        best = tabu(c, a, b, best, prices, min(STEPS, STEPS * 50_000 // (n * n)))
    return best.tolist()


def total(c, agents):
    return c[agents, np.arange(len(agents))].sum()


def load(a, agents):
    return np.bincount(agents, a[agents, np.arange(len(agents))], minlength=len(a))


def relaxed(c, a, b):
    m, n = c.shape
    cell = np.arange(m * n)
    jobs = coo_matrix((np.ones(m * n), (cell % n, cell)), shape=(n, m * n)).tocsr()
    room = coo_matrix((a.ravel(), (cell // n, cell)), shape=(m, m * n)).tocsr()
    done = linprog(c.ravel(), A_ub=room, b_ub=b, A_eq=jobs, b_eq=np.ones(n), method="highs")
    if done.status != 0:
        return (a == a.min(axis=0)).astype(float), np.full(m, c.mean() / a.mean())
    return done.x.reshape(m, n), -done.ineqlin.marginals


def by_regret(c, a, b):
    """The job that loses most if it misses its cheapest agent goes first; None if some do not fit."""
    room, left = b.copy(), np.ones(c.shape[1], dtype=bool)
    agents = np.zeros(c.shape[1], dtype=int)
    while left.any():
        open_costs = np.where(a <= room[:, None], c, np.inf)
        if np.isinf(open_costs.min(axis=0)[left]).any():
            return None
        two = np.sort(open_costs, axis=0)[:2]
        with np.errstate(invalid="ignore"):
            job = int(np.where(left, np.nan_to_num(two[1] - two[0], nan=-1, posinf=1e9), -2).argmax())
        agents[job] = int(open_costs[:, job].argmin())
        room[agents[job]] -= a[agents[job], job]
        left[job] = False
    return agents


def descent(c, a, b, agents):
    """The best shifts and swaps that fit, until none helps."""
    agents, jobs = agents.copy(), np.arange(len(agents))
    while True:
        room = b - load(a, agents)
        paid, takes = c[agents, jobs], a[agents, jobs]
        shift = np.where(a <= room[:, None], c - paid, 0.0)
        spare = room[agents] + takes  # with the job away
        fits = a[agents, :] <= spare[:, None]
        change = c[agents, :] - paid[:, None]  # [j, k]: job k at the agent of job j, less what j paid
        swap = np.where(fits & fits.T, change + change.T, 0.0)
        if min(shift.min(), swap.min()) > -1e-9:
            return agents
        if shift.min() <= swap.min():
            agent, job = np.unravel_index(shift.argmin(), shift.shape)
            agents[job] = agent
        else:
            one, other = np.unravel_index(swap.argmin(), swap.shape)
            agents[[one, other]] = agents[[other, one]]


def tabu(c, a, b, agents, prices, steps):
    n = c.shape[1]
    rng = np.random.default_rng(1)
    agents, jobs = agents.copy(), np.arange(n)
    best, least = agents.copy(), total(c, agents)
    price = np.maximum(prices, c.mean() / a.mean() / 10)
    until = np.zeros(n, dtype=int)
    used, cost = load(a, agents), least
    for step in range(steps):
        over = np.maximum(used - b, 0)
        paid, takes = c[agents, jobs], a[agents, jobs]
        away = price[agents] * (np.maximum(used[agents] - takes - b[agents], 0) - over[agents]) - paid
        shift = c + price[:, None] * (np.maximum(used[:, None] + a - b[:, None], 0) - over[:, None]) + away
        held = until > step
        shift[:, held] = np.inf
        shift[agents, jobs] = np.inf
        at = int(shift.argmin())
        gain, pair = shift.flat[at], None
        if gain > -1e-9:
            spare = (used - b)[agents] - takes
            part = (
                c[agents]
                + price[agents][:, None] * (np.maximum(spare[:, None] + a[agents], 0) - over[agents][:, None])
                - paid[:, None]
            )
            swap = part + part.T
            swap[agents[:, None] == agents] = np.inf
            swap[held] = np.inf
            swap[:, held] = np.inf
            s = int(swap.argmin())
            if swap.flat[s] < gain:
                gain, pair = swap.flat[s], divmod(s, n)
        if gain > -1e-9:
            price = price * np.where(over > 0, 1.2, 0.97)
        moved = [(at % n, at // n)] if pair is None else [(pair[0], agents[pair[1]]), (pair[1], agents[pair[0]])]
        for job, agent in moved:
            used[agents[job]] -= a[agents[job], job]
            cost += c[agent, job] - c[agents[job], job]
            used[agent] += a[agent, job]
            agents[job] = agent
            until[job] = step + 5 + rng.integers(10)
        if cost < least - 1e-9 and (used <= b).all():
            best, least = agents.copy(), cost
    return best
