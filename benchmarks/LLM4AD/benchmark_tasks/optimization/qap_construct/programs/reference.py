import numpy as np

LEVEL = 5
STEPS = {1: 0, 2: 0, 3: 100, 4: 1000, 5: 10000}[LEVEL]
"""Of tabu search."""
PLAN = []


def select_next_assignment(
    current_assignment: list[int], flow_matrix: np.ndarray, distance_matrix: np.ndarray
) -> tuple[int, int]:
    """Follows a placement planned at the first call: facilities one after the other where they cost least, improved by
    exchanges of two, then by tabu search over them (robust tabu search; Taillard, 1991). Matrices are symmetric with
    an empty diagonal."""
    if all(place < 0 for place in current_assignment):
        f, d = flow_matrix.astype(float), distance_matrix.astype(float)
        at = placed(f, d)
        if LEVEL >= 2:
            at = descended(f, d, at)
        PLAN[:] = tabu(f, d, at, STEPS).tolist()
    facility = current_assignment.index(-1)
    return facility, int(PLAN[facility])


def placed(f, d):
    """The facility with the most flow to the placed ones to where it costs least."""
    n = len(f)
    at, free = np.full(n, -1), np.ones(n, dtype=bool)
    facility, place = int(f.sum(axis=1).argmax()), int(d.sum(axis=1).argmin())
    for _ in range(n):
        at[facility], free[place] = place, False
        done = at >= 0
        facility = int(np.where(done, -1.0, f[:, done].sum(axis=1)).argmax())
        place = int(np.where(free, d[:, at[done]] @ f[done, facility], np.inf).argmin())
    return at


def descended(f, d, at):
    while True:
        change = changes(f, d[np.ix_(at, at)])
        one, other = np.unravel_index(change.argmin(), change.shape)
        if change[one, other] >= -1e-9:
            return at
        at[[one, other]] = at[[other, one]]


def tabu(f, d, at, steps):
    n, rng = len(f), np.random.default_rng(1)
    until = np.zeros((n, n))
    cost = best = (f * d[np.ix_(at, at)]).sum()
    kept, at, lower = at, at.copy(), np.tril(np.ones((n, n), dtype=bool))
    for step in range(steps):
        change = np.where(lower, np.inf, changes(f, d[np.ix_(at, at)]))
        waits = until[:, at] > step  # which facilities may not go to the locations of which
        change[waits & waits.T & (cost + change >= best)] = np.inf
        one, other = np.unravel_index(change.argmin(), change.shape)
        if np.isinf(change[one, other]):
            continue
        cost += change[one, other]
        for facility in (one, other):
            until[facility, at[facility]] = step + rng.integers(int(0.9 * n), int(1.1 * n) + 2)
        at[[one, other]] = at[[other, one]]
        if cost < best - 1e-9:
            best, kept = cost, at.copy()
    return kept


def changes(f, d):
    """What exchanging facilities r and s changes, for all pairs; d has the distances between facilities' locations."""
    both = f @ d
    own = np.diag(both)
    return 2 * (both + both.T - own[:, None] - own[None, :] + 2 * f * d)
