import numpy as np

PLAN = []


def select_next_assignment(
    current_assignment: list[int], flow_matrix: np.ndarray, distance_matrix: np.ndarray
) -> tuple[int, int]:
    """Follows a placement planned at the first call, by tabu search over exchanges of two facilities (robust tabu
    search; Taillard, 1991). Matrices are symmetric with an empty diagonal."""
    if all(place < 0 for place in current_assignment):
        PLAN[:] = tabu(flow_matrix.astype(float), distance_matrix.astype(float))
    facility = current_assignment.index(-1)
    return facility, int(PLAN[facility])


def tabu(f, d, steps=400):
    n, rng = len(f), np.random.default_rng(1)
    at = np.empty(n, dtype=int)
    at[np.argsort(-f.sum(axis=1))] = np.argsort(d.sum(axis=1))
    until = np.zeros((n, n))
    cost = best = (f * d[np.ix_(at, at)]).sum()
    kept, lower = at.copy(), np.tril(np.ones((n, n), dtype=bool))
    facilities = np.arange(n)
    for step in range(steps):
        change = np.where(lower, np.inf, changes(f, d[np.ix_(at, at)]))
        back = (until[facilities[:, None], at[None, :]] > step) & (until[facilities[None, :], at[:, None]] > step)
        change[back & (cost + change >= best)] = np.inf
        one, other = np.unravel_index(change.argmin(), change.shape)
        if np.isinf(change[one, other]):
            continue
        cost += change[one, other]
        until[one, at[one]] = step + rng.integers(int(0.9 * n), int(1.1 * n) + 2)
        until[other, at[other]] = step + rng.integers(int(0.9 * n), int(1.1 * n) + 2)
        at[[one, other]] = at[[other, one]]
        if cost < best - 1e-9:
            best, kept = cost, at.copy()
    return kept.tolist()


def changes(f, d):
    """What exchanging facilities r and s changes, for all pairs; d has the distances between facilities' locations."""
    both = f @ d
    own = np.diag(both)
    return 2 * (both + both.T - own[:, None] - own[None, :] + 2 * f * d)
