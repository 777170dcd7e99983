import numpy as np
from scipy.optimize import linear_sum_assignment

LEVEL = 5


def solve(n: int, cost_matrix: np.ndarray) -> list[int]:
    """Shortest augmenting paths (Jonker and Volgenant, 1987; Crouse, 2016): the optimum. Below the highest level a
    greedy assignment, by cost or by regret (Vogel), and exchanges of two agents."""
    if LEVEL == 5:
        return linear_sum_assignment(cost_matrix)[1].tolist()
    agents = by_cost(cost_matrix) if LEVEL == 1 else by_regret(cost_matrix.astype(float))
    if LEVEL >= 3:
        agents = exchanged(cost_matrix, agents)
    if LEVEL == 4:
        rng = np.random.default_rng(1)
        for _ in range(min(100, 4_000_000 // n**2)):
            agents = min(agents, exchanged(cost_matrix, shaken(agents, rng)), key=lambda a: total(cost_matrix, a))
    return agents.tolist()


def total(costs, agents):
    return costs[np.arange(len(agents)), agents].sum()


def by_cost(costs):
    """The cheapest pair whose item and agent are both free, again and again."""
    n = len(costs)
    agents, free = np.full(n, -1), np.ones(n, dtype=bool)
    for pair in np.argsort(costs, axis=None, kind="stable").tolist():
        item, agent = divmod(pair, n)
        if agents[item] < 0 and free[agent]:
            agents[item], free[agent] = agent, False
    return agents


def by_regret(costs):
    """The item that loses most if it misses its cheapest free agent goes first."""
    left, agents = costs.copy(), np.full(len(costs), -1)
    for _ in range(len(costs) - 1):
        two = np.partition(left, 1, axis=1)
        with np.errstate(invalid="ignore"):
            item = int(np.where(agents < 0, two[:, 1] - two[:, 0], -1).argmax())
        agents[item] = left[item].argmin()
        left[:, agents[item]] = np.inf
    agents[agents < 0] = left[agents < 0].argmin(axis=1)
    return agents


def exchanged(costs, agents):
    """The best exchange of the agents of two items, until none helps."""
    agents = agents.copy()
    while True:
        change = costs[:, agents] - costs[np.arange(len(agents)), agents][:, None]  # [j, k]: j at the agent of k
        change = change + change.T
        one, other = np.unravel_index(change.argmin(), change.shape)
        if change[one, other] >= 0:
            return agents
        agents[[one, other]] = agents[[other, one]]


def shaken(agents, rng):
    moved, chosen = agents.copy(), rng.permutation(len(agents))[:6]
    moved[chosen] = np.roll(moved[chosen], 1)
    return moved
