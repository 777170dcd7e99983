import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

LEVEL = 5
PLANS = {1: 0, 2: 0, 3: 20, 4: 60, 5: 240}[LEVEL]


def solve(
    m: int, n: int, capacities: np.ndarray, fixed_costs: np.ndarray, demands: np.ndarray, costs: np.ndarray
) -> np.ndarray:
    """A Lagrangian heuristic (Beasley, 1993): prices of the customers say which warehouses pay, and for the sets found
    so the transport is solved exactly. Then warehouses are closed, opened or exchanged: the prices of the transport
    say which change is worth a new plan; where none helps, some are exchanged at random."""
    sites = Sites(capacities, fixed_costs, demands, costs)
    if LEVEL == 1:
        found = [sites.completed([], fixed_costs / np.maximum(capacities, 1) + costs.mean(axis=0) / capacities.mean())]
    else:
        found = sites.proposals(150 if LEVEL >= 3 else 25)[: 1 if LEVEL == 2 else 6]
    most = min(PLANS, 4 * m, PLANS * 20_000 // (m * n))
    best = sites.improved(min(found, key=sites.value), most)
    rng = np.random.default_rng(1)
    for _ in range(most):
        if len(sites.known) >= most:
            break
        best = min(best, sites.improved(sites.shaken(best, rng), most), key=sites.value)
    return sites.plan(best)[1]


class Sites:
    """Sets of open warehouses, as sorted tuples, and what they cost."""

    def __init__(self, capacities, fixed, demands, costs):
        self.capacities, self.fixed, self.demands = capacities.astype(float), fixed.astype(float), demands.astype(float)
        self.units = costs / np.maximum(self.demands, 1e-9)[:, None]
        self.known = {}

    def value(self, sites):
        return self.plan(sites)[0]

    def plan(self, sites):
        """Cost, amounts, and the prices of the customers' units."""
        if sites not in self.known:
            self.known[sites] = self.transport(np.array(sites, dtype=int))
        return self.known[sites]

    def transport(self, sites, near=8):
        n, k = len(self.demands), len(sites)
        if self.capacities[sites].sum() < self.demands.sum():
            return np.inf, None, None
        units = self.units[:, sites]
        rank = np.argsort(np.argsort(units, axis=1, kind="stable"), axis=1, kind="stable")
        customer, site = np.nonzero(rank < near)
        cells = np.arange(len(site))
        of_customer = csr_matrix((np.ones(len(cells)), (customer, cells)), shape=(n, len(cells)))
        of_site = csr_matrix((np.ones(len(cells)), (site, cells)), shape=(k, len(cells)))
        done = linprog(units[customer, site], A_ub=of_site, b_ub=self.capacities[sites], A_eq=of_customer,
                       b_eq=self.demands, method="highs")  # fmt: skip
        if done.status == 0:
            prices = done.eqlin.marginals
            if near >= k or (units - prices[:, None] - done.ineqlin.marginals >= -1e-7).all():
                amounts = np.zeros((n, len(self.fixed)))
                amounts[customer, sites[site]] = done.x
                return self.fixed[sites].sum() + done.fun, amounts, prices
        return self.transport(sites, 3 * near) if near < k else (np.inf, None, None)

    def completed(self, sites, worth):
        """With further warehouses, those of least worth first, until they hold all demand."""
        sites = list(sites)
        for site in np.argsort(worth, kind="stable").tolist():
            if self.capacities[sites].sum() >= self.demands.sum():
                break
            if site not in sites:
                sites.append(site)
        return tuple(sorted(sites))

    def reduced(self, prices):
        """What each warehouse adds to the Lagrangian if it is open, and the units that each customer gets there."""
        gains = np.minimum(self.units - prices[:, None], 0)
        order = np.argsort(gains, axis=0, kind="stable")
        needs = np.where(np.take_along_axis(gains, order, axis=0) < 0, self.demands[order], 0)
        taken = np.clip(self.capacities - (np.cumsum(needs, axis=0) - needs), 0, needs)
        amounts = np.zeros_like(gains)
        np.put_along_axis(amounts, order, taken, axis=0)
        return self.fixed + (gains * amounts).sum(axis=0), amounts

    def proposals(self, steps):
        """Sets of warehouses that pay at the prices of some subgradient steps, those of the best prices first."""
        prices, best, pace, found, since = np.sort(self.units, axis=1)[:, :2].mean(axis=1), -np.inf, 1.5, {}, 0
        for _ in range(steps):
            worth, amounts = self.reduced(prices)
            pays = worth < 0
            bound = (prices * self.demands).sum() + worth[pays].sum()
            found.setdefault(self.completed(np.flatnonzero(pays).tolist(), worth), bound)
            slope = self.demands - amounts[:, pays].sum(axis=1)
            since = 0 if bound > best else since + 1
            pace, best = pace * (0.7 if since % 5 == 4 else 1), max(best, bound)
            prices = prices + pace * (0.05 * abs(best) + best - bound) / max(slope @ slope, 1e-9) * slope
        return sorted(found, key=lambda sites: -found[sites])

    def improved(self, sites, most):
        """The sites after the first change of the most promising ones that helps, until none does."""
        better = True
        while better and len(self.known) < most:
            better = False
            for other in self.changes(sites)[:12]:
                if len(self.known) < most and self.value(other) < self.value(sites) - 1e-9:
                    sites, better = other, True
                    break
        return sites

    def changes(self, sites):
        """Sets that differ by a warehouse closed, opened, or exchanged, by an estimate of what they cost."""
        _, amounts, prices = self.plan(sites)
        inside, outside = list(sites), [j for j in range(len(self.fixed)) if j not in sites]
        adding, _ = self.reduced(prices)
        spare = np.where(amounts[:, inside].sum(axis=0) < self.capacities[inside] - 1e-6, 0, np.inf)
        found = [(adding[j], tuple(sorted((*inside, j)))) for j in outside]
        for number, out in enumerate(inside):
            other = self.units[:, inside] + spare
            other[:, number] = np.inf
            other = np.minimum(other.min(axis=1), 1.5 * self.units.max())
            paid = (amounts[:, out] * self.units[:, out]).sum() + self.fixed[out]
            rest = [j for j in inside if j != out]
            found.append(((amounts[:, out] * other).sum() - paid, tuple(rest)))
            there = (amounts[:, out][:, None] * np.minimum(other[:, None], self.units[:, outside])).sum(axis=0)
            free = np.clip(1 - amounts[:, out].sum() / np.maximum(self.capacities[outside], 1e-9), 0, 1)
            change = there - paid + self.fixed[outside] + free * (adding - self.fixed)[outside]
            found += [(change[i], tuple(sorted((*rest, j)))) for i, j in enumerate(outside)]
        room = self.demands.sum()
        return [s for _, s in sorted(found) if self.capacities[list(s)].sum() >= room and s not in self.known]

    def shaken(self, sites, rng):
        kept = [j for j in sites if rng.random() > 0.2]
        new = rng.choice(len(self.fixed), size=min(len(self.fixed), len(sites) - len(kept) + 1), replace=False)
        return self.completed(sorted({*kept, *new.tolist()}), rng.random(len(self.fixed)))
