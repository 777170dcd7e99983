import numpy as np

STARTS = 6


def select_next_assignment(
    current_assignment: list[int], flow_matrix: np.ndarray, distance_matrix: np.ndarray
) -> tuple[int, int]:
    """The facility that costs most in a placement of all that are left, which is planned anew at each call: by greedy
    and random placements, improved by exchanges of two. Matrices are symmetric with an empty diagonal."""
    f, d, at = flow_matrix.astype(float), distance_matrix.astype(float), np.array(current_assignment)
    left = at < 0
    rng = np.random.default_rng(1)
    starts = [placed(f, d, at), *(shuffled(at, rng) for _ in range(STARTS))]
    found = [descended(f, d, start, left) for start in starts]
    best = min(found, key=lambda at: (f * d[np.ix_(at, at)]).sum())
    share = (f * d[np.ix_(best, best)]).sum(axis=1)
    facility = int(np.where(left, share, -1.0).argmax())
    return facility, int(best[facility])


def shuffled(at, rng):
    at = at.copy()
    at[at < 0] = rng.permutation(np.setdiff1d(np.arange(len(at)), at))
    return at


def placed(f, d, at):
    """The facility with the most flow to the placed ones to where it costs least."""
    at, n = at.copy(), len(f)
    free = ~np.isin(np.arange(n), at)
    while (at < 0).any():
        done = at >= 0
        if done.any():
            facility = int(np.where(done, -1.0, f[:, done].sum(axis=1)).argmax())
            cost = d[:, at[done]] @ f[done, facility]
        else:
            facility, cost = int(f.sum(axis=1).argmax()), d.sum(axis=1)
        at[facility] = int(np.where(free, cost, np.inf).argmin())
        free[at[facility]] = False
    return at


def descended(f, d, at, left):
    """Exchanges of two of the facilities that are left, the best one again and again."""
    both = left[:, None] & left
    while True:
        change = np.where(both, changes(f, d[np.ix_(at, at)]), 0.0)
        one, other = np.unravel_index(change.argmin(), change.shape)
        if change[one, other] >= -1e-9:
            return at
        at[[one, other]] = at[[other, one]]


def changes(f, d):
    """What exchanging facilities r and s changes, for all pairs; d has the distances between facilities' locations."""
    both = f @ d
    own = np.diag(both)
    return 2 * (both + both.T - own[:, None] - own[None, :] + 2 * f * d)
