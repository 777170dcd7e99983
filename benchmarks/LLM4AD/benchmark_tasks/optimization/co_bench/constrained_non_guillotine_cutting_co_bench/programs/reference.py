import numpy as np

ROUNDS = 150


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Best of many randomized greedy patterns on maximal free rectangles (Jylänki, A thousand ways to pack the bin,
    2010): what must be cut first, then pieces by value for their area and chance, each where it leaves the shortest
    side; each round perturbs the order that was best so far (compare Alvarez-Valdes, Parreño, Tamarit, 2005)."""
    rng = np.random.default_rng(1)
    rows = pieces.tolist()
    area = pieces[:, 0] * pieces[:, 1]
    weights = pieces[:, 4] / area * (area / area.max()) ** 0.3
    best, best_value = None, -1
    for turn in range(ROUNDS):
        trial = weights * rng.lognormal(0.0, 0.3, len(rows)) if turn else weights
        order = np.argsort(-trial, kind="stable").tolist()
        queue = [i for i in order for _ in range(rows[i][2])]
        queue += [i for i in order for _ in range(rows[i][3] - rows[i][2])]
        found, value = filled(stock_length, stock_width, rows, queue)
        if value > best_value and all(sum(p[0] == i for p in found) >= rows[i][2] for i in range(len(rows))):
            best, best_value, weights = found, value, trial
    return best or filled(stock_length, stock_width, rows, [i for i, row in enumerate(rows) for _ in range(row[2])])[0]


def filled(length, width, rows, queue):
    free, placements, total = [(0, 0, length, width)], [], 0
    for i in queue:
        across, up, value = rows[i][0], rows[i][1], rows[i][4]
        place = min(
            ((min(r - x - across, t - y - up), x + y, x, y) for x, y, r, t in free if r - x >= across and t - y >= up),
            default=None,
        )
        if place is None:
            continue
        x, y = place[2:]
        placements.append((i, x, y))
        total += value
        free = without(free, x, y, x + across, y + up)
    return placements, total


def without(free, left, low, right, high):
    """Maximal free rectangles after this one is taken."""
    kept, cut = [], []
    for x, y, r, t in free:
        if left >= r or right <= x or low >= t or high <= y:
            kept.append((x, y, r, t))
            continue
        if left > x:
            cut.append((x, y, left, t))
        if right < r:
            cut.append((right, y, r, t))
        if low > y:
            cut.append((x, y, r, low))
        if high < t:
            cut.append((x, high, r, t))
    for n, (x, y, r, t) in enumerate(cut):
        others = kept + cut[:n] + [c for c in cut[n + 1 :] if c != cut[n]]
        if not any(a <= x and b <= y and c >= r and d >= t for a, b, c, d in others):
            kept.append((x, y, r, t))
    return kept
