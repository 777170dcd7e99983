import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix


def solve(
    m: int, n: int, capacities: np.ndarray, fixed_costs: np.ndarray, demands: np.ndarray, costs: np.ndarray
) -> np.ndarray:
    """A Lagrangian heuristic (Beasley, 1993): prices of the customers say which warehouses pay, and for the sets that
    come up the transport is solved exactly; then single warehouses are closed, opened or exchanged."""
    units = costs / np.maximum(demands, 1e-9)[:, None]
    known = {}

    def value(sites):
        if capacities[list(sites)].sum() < demands.sum():
            return np.inf
        if sites not in known:
            known[sites] = fixed_costs[list(sites)].sum() + transport(list(sites), capacities, demands, units)[0]
        return known[sites]

    best = min(proposals(capacities, fixed_costs, demands, costs), key=value)
    better = True
    while better and len(known) < 80:
        better = False
        inside, outside = best, [j for j in range(m) if j not in best]
        tries = [tuple(j for j in inside if j != out) for out in inside]
        tries += [tuple(sorted((*inside, new))) for new in outside]
        near = costs.sum(axis=0)
        for out in inside:
            for new in sorted(outside, key=lambda j: abs(near[j] - near[out]))[:3]:
                tries.append(tuple(sorted((*(j for j in inside if j != out), new))))
        for sites in tries:
            if len(known) < 80 and value(sites) < value(best) - 1e-9:
                best, better = sites, True
                break
    amounts = np.zeros((n, m))
    amounts[:, list(best)] = transport(list(best), capacities, demands, units)[1]
    return amounts


def proposals(capacities, fixed_costs, demands, costs):
    """Sets of warehouses that pay at the prices of some subgradient steps, made large enough."""
    prices, found, pace = costs.min(axis=1) * 1.5, [], 0.5 * costs.mean()
    for step in range(60):
        gains = np.minimum(costs - prices[:, None], 0)
        order = np.argsort(gains / np.maximum(demands, 1e-9)[:, None], axis=0, kind="stable")
        share = np.zeros(costs.shape)
        for site in range(len(capacities)):
            room = capacities[site]
            for customer in order[:, site]:
                if room <= 0 or gains[customer, site] >= 0:
                    break
                share[customer, site] = min(1.0, room / max(demands[customer], 1e-9))
                room -= demands[customer]
        worth = fixed_costs + (gains * share).sum(axis=0)
        sites = np.flatnonzero(worth < 0).tolist()
        slope = 1 - share[:, sites].sum(axis=1)
        prices = prices + pace * slope / (1 + step / 5)
        for site in np.argsort(worth, kind="stable").tolist():
            if capacities[sites].sum() >= demands.sum():
                break
            if site not in sites:
                sites.append(site)
        if step % 4 == 3:
            found.append(tuple(sorted(sites)))
    return found


def transport(sites, capacities, demands, units):
    """Cost and amounts of supplying all customers from these warehouses."""
    n, k = len(demands), len(sites)
    cells = np.arange(n * k)
    of_customer = coo_matrix((np.ones(n * k), (cells // k, cells)), shape=(n, n * k)).tocsr()
    of_site = coo_matrix((np.ones(n * k), (cells % k, cells)), shape=(k, n * k)).tocsr()
    done = linprog(units[:, sites].ravel(), A_ub=of_site, b_ub=capacities[sites], A_eq=of_customer, b_eq=demands,
                   method="highs")  # fmt: skip
    return (done.fun, done.x.reshape(n, k)) if done.status == 0 else (np.inf, None)
