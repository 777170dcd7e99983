import numpy as np

LEVEL = 5
ROUNDS = {1: 0, 2: 0, 3: 0, 4: 10, 5: 150}[LEVEL]


def solve(m: int, n: int, fixed_costs: np.ndarray, costs: np.ndarray) -> list[int]:
    """Warehouses are added as long as one saves money (Kuehn and Hamburger, 1963); then, as long as it helps, one is
    opened, closed, or exchanged for another (all exchanges at once as in Whitaker, 1983); then the same again and again
    after some random exchanges (iterated local search)."""
    fixed, costs = fixed_costs.astype(float), costs.astype(float)
    best, least = improved([int((fixed + costs.sum(axis=0)).argmin())], fixed, costs)
    rng = np.random.default_rng(1)
    for _ in range(min(ROUNDS, ROUNDS * 300_000 // (n * m))):
        kept = [j for j in best if rng.random() > 0.2]
        new = rng.choice(m, size=len(best) - len(kept) + 1, replace=False).tolist()
        sites, value = improved(sorted({*kept, *new}), fixed, costs)
        if value <= least:
            best, least = sites, value
    return np.array(best)[costs[:, best].argmin(axis=1)].tolist()


def improved(sites, fixed, costs):
    """The sites after the best changes, until none helps; what they cost."""
    everyone = np.arange(len(costs))
    while True:
        mine = costs[:, sites]
        owner = mine.argmin(axis=1)
        near = mine[everyone, owner]
        mine[everyone, owner] = np.inf
        second = mine.min(axis=1)
        adding = fixed - np.maximum(near[:, None] - costs, 0).sum(axis=0)
        adding[sites] = np.inf
        closing = np.bincount(owner, second - near, minlength=len(sites)) - fixed[sites]
        change, out, new = min(adding.min(), 0), None, int(adding.argmin())
        if LEVEL >= 2 and len(sites) > 1 and closing.min() < change:
            change, out, new = closing.min(), int(closing.argmin()), None
        if LEVEL >= 3 and len(sites) > 1:
            spared = np.maximum(second[:, None] - np.maximum(near[:, None], costs), 0)  # by a new site, if one closes
            both = closing[:, None] + adding - (owner == np.arange(len(sites))[:, None]).astype(float) @ spared
            if both.min() < change:
                change, (out, new) = both.min(), divmod(int(both.argmin()), len(fixed))
        if change > -1e-9:
            return sites, fixed[sites].sum() + near.sum()
        sites = [j for i, j in enumerate(sites) if i != out] + ([] if new is None else [new])
