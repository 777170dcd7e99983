import numpy as np

LEVEL = 5
STEPS = {1: 0, 2: 30, 3: 200, 4: 1000, 5: 10000}[LEVEL]
"""Of local search."""
PLAN = []


def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> int:
    """Follows a cover planned at the first call: greedy, what became superfluous left out, improved by local search
    that weighs the elements (Gao, Weise, Li, 2015)."""
    if not selected_subsets:
        PLAN[:] = [remaining_subsets[i] for i in planned(remaining_subsets, remaining_elements)]
    return remaining_subsets.index(PLAN[len(selected_subsets)])


def planned(subsets, elements):
    has = np.zeros((len(subsets), 1 + max(elements)))
    for i, subset in enumerate(subsets):
        has[i, subset] = 1.0
    has = has[:, elements]
    chosen = np.zeros(len(subsets), dtype=bool)
    while (open_elements := chosen @ has == 0).any():
        chosen[(has @ open_elements).argmax()] = True
    while (spare := chosen & (has @ (chosen @ has == 1) == 0)).any():
        chosen[spare.argmax()] = False
    return np.flatnonzero(searched(has, chosen))


def searched(has, chosen):
    """One subset goes, the one that is missed least; one comes that has a random element that is not covered, and
    elements count for more the longer they are not. A subset does not come back at once."""
    rng = np.random.default_rng(1)
    m, n = has.shape
    best, chosen, weights = chosen, chosen.copy(), np.ones(n)
    since, free = np.zeros(m), np.ones(m, dtype=bool)
    times, last = chosen @ has, -1
    for step in range(1, STEPS + 1):
        while not (times == 0).any():
            best = chosen.copy()
            gone = least(has, chosen, times, weights, since, -1)
            chosen[gone], times = False, times - has[gone]
        gone = least(has, chosen, times, weights, since, last)
        if gone >= 0:
            chosen[gone], times, since[gone], free[gone] = False, times - has[gone], step, False
        missing = times == 0
        element = rng.choice(np.flatnonzero(missing))
        offered = np.flatnonzero((has[:, element] > 0) & (free | (not (has[free, element] > 0).any())))
        gain = has[offered] @ (weights * missing)
        top = offered[gain >= gain.max()]
        last = int(top[since[top].argmin()])
        chosen[last], times, since[last] = True, times + has[last], step
        free |= has @ has[last] > 0
        weights += times == 0
    return chosen if chosen.sum() < best.sum() and times.all() else best


def least(has, chosen, times, weights, since, spared):
    """The chosen subset that loses the least weight, of those the oldest; -1 if there is none but the spared one."""
    one = np.flatnonzero(chosen)
    one = one[one != spared]
    if not len(one):
        return -1
    lost = has[one] @ (weights * (times == 1))
    top = one[lost <= lost.min()]
    return int(top[since[top].argmin()])
