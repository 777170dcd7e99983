import numpy as np


def solve(m: int, n: int, cost_matrix: np.ndarray, consumption_matrix: np.ndarray, capacities: np.ndarray) -> list[int]:
    """Construction by regret (Martello and Toth, 1981), then shifts and swaps of jobs (Osman, 1995) until none helps,
    started anew from the best solution with a few jobs moved at random."""
    c, a, b = cost_matrix.astype(float), consumption_matrix.astype(float), capacities.astype(float)
    rng = np.random.default_rng(1)
    starts = [s for s in (by_regret(c, a, b), a.argmin(axis=0)) if s is not None and (load(a, s) <= b).all()]
    found = [descent(c, a, b, s) for s in starts]
    if not found:
        return a.argmin(axis=0).tolist()
    best = min(found, key=lambda s: total(c, s))
    current = best
    for _ in range(150):
        moved = descent(c, a, b, shaken(a, b, current, rng))
        if total(c, moved) <= total(c, current) + 2:
            current = moved
        if total(c, moved) < total(c, best):
            best = moved
    return best.tolist()


def total(c, agents):
    return c[agents, np.arange(len(agents))].sum()


def load(a, agents):
    return np.bincount(agents, a[agents, np.arange(len(agents))], minlength=len(a))


def by_regret(c, a, b):
    """The job that loses most if it misses its cheapest agent goes first."""
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


def shaken(a, b, agents, rng):
    """A few jobs taken out, and put back in random order where they fit, at random; as it was if they do not."""
    out = rng.permutation(len(agents))[: max(3, len(agents) // 6)]
    moved, room = agents.copy(), b - load(a, agents)
    np.add.at(room, agents[out], a[agents[out], out])
    for job in out:
        fits = np.flatnonzero(a[:, job] <= room)
        if len(fits) == 0:
            return agents
        moved[job] = rng.choice(fits)
        room[moved[job]] -= a[moved[job], job]
    return moved
