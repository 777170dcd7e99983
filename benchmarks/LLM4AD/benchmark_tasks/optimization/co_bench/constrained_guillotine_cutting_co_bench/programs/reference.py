import numpy as np

ROUNDS = 300


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Best of many randomized greedy patterns: the next piece, by value for its area and chance, goes into the free
    rectangle where it leaves the shortest side, and a guillotine cut divides what is left (Jylänki, A thousand ways to
    pack the bin, 2010, GUILLOTINE-BSSF); each round perturbs the order that was best so far (Feo and Resende, 1995)."""
    rng = np.random.default_rng(1)
    rows = pieces.tolist()
    density = np.array([value / (length * width) for length, width, _, value in rows])
    area = np.array([length * width for length, width, _, _ in rows]) / (stock_length * stock_width)
    best, best_value = [], -1
    weights = density * area**0.3
    for turn in range(ROUNDS):
        trial = weights * rng.lognormal(0.0, 0.35, len(rows)) if turn else weights
        found, value = filled(stock_length, stock_width, rows, np.argsort(-trial, kind="stable").tolist(), turn % 3)
        if value > best_value:
            best, best_value, weights = found, value, trial
    return best


def filled(length, width, rows, order, rule):
    free, placements, total = [(0, 0, length, width)], [], 0
    for i in order:
        across, up, most, value = rows[i]
        for _ in range(most):
            place = min(
                ((min(a - across, b - up), k) for k, (_, _, a, b) in enumerate(free) if a >= across and b >= up),
                default=None,
            )
            if place is None:
                break
            x, y, a, b = free.pop(place[1])
            placements.append((i, x, y))
            total += value
            beside = a - across < b - up if rule == 0 else (a - across > b - up if rule == 1 else across * b > up * a)
            if beside:
                parts = [(x + across, y, a - across, up), (x, y + up, a, b - up)]
            else:
                parts = [(x + across, y, a - across, b), (x, y + up, across, b - up)]
            free += [part for part in parts if part[2] > 0 and part[3] > 0]
    return placements, total
