import numpy as np


def solve(m: int, n: int, costs: np.ndarray, row_cover: list[list[int]]) -> list[int]:
    """Greedy by cost for each new row (Chvatal, 1979), superfluous columns left out; then the same again and again from
    the best cover less a random part of it (Jacobs and Brusco, 1995)."""
    covers = np.zeros((n, m), dtype=np.float32)
    for row, columns in enumerate(row_cover):
        covers[columns, row] = 1
    costs = costs.astype(float)
    rng = np.random.default_rng(1)
    best = current = cover([], covers, costs)
    for _ in range(100):
        kept = [j for j in current if rng.random() > 0.25]
        moved = cover(kept, covers, costs * rng.uniform(0.9, 1.1, n))
        if costs[moved].sum() <= costs[current].sum():
            current = moved
        if costs[moved].sum() < costs[best].sum():
            best = moved
    return sorted(best)


def cover(kept, covers, costs):
    chosen = list(kept)
    times = covers[chosen].sum(axis=0)
    fresh = covers @ (times == 0).astype(np.float32)
    while (times == 0).any():
        with np.errstate(divide="ignore"):
            column = int((costs / fresh).argmin())
        new = np.flatnonzero((covers[column] > 0) & (times == 0))
        chosen.append(column)
        times += covers[column]
        fresh -= covers[:, new].sum(axis=1)
    for column in sorted(chosen, key=lambda j: -costs[j]):
        if (times[covers[column] > 0] > 1).all():
            times -= covers[column]
            chosen.remove(column)
    return chosen
