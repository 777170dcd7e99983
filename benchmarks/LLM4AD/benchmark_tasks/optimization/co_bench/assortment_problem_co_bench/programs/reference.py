import numpy as np

LEVEL = 5
PAIRED = (0, 0, 0, 2, 3, 5)[LEVEL]
"""Of how many types that are good by themselves pairs are tried."""


def solve(stocks: np.ndarray, pieces: np.ndarray) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
    """Every type of sheet by itself, then each pair of the best ones: sheet by sheet, of the types allowed that which
    is covered best by a greedy filling of its maximal free rectangles (Jylänki, A thousand ways to pack the bin,
    2010), largest pieces first, those still asked for before others (the two steps of Beasley, 1985, much
    simplified)."""
    kinds = [k for k, stock in enumerate(stocks.tolist()) if all(fits(stock, row) for row in pieces.tolist() if row[2])]
    kinds = kinds[: 2 if LEVEL == 1 else None]
    plans = [cut([kind], stocks, pieces) for kind in kinds or range(len(stocks))]
    plans.sort(key=lambda plan: plan[0])
    best = [plan[1][0][0] for plan in plans[:PAIRED]]
    plans += [cut([a, b], stocks, pieces) for n, a in enumerate(best) for b in best[:n]]
    return min(plans, key=lambda plan: plan[0])[1]


def fits(stock, piece):
    return min(stock) >= min(piece[:2]) and max(stock) >= max(piece[:2])


def cut(kinds, stocks, pieces):
    """Waste and sheets of a plan that uses these types; more waste than there can be if demand is left."""
    rows = pieces.tolist()
    due, extra = [row[2] for row in rows], [row[3] - row[2] for row in rows]
    sheets, used, covered = [], 0, 0
    while any(due):
        options = []
        for kind in kinds:
            length, width = (int(n) for n in stocks[kind])
            placements, area, left = filled(length, width, rows, due, extra)
            options.append((area / (length * width), kind, placements, area, left))
        share, kind, placements, area, (due, extra) = max(options, key=lambda option: option[0])
        if not share:
            return 2.0, [(kind, [])]
        sheets.append((kind, placements))
        used, covered = used + int(stocks[kind][0] * stocks[kind][1]), covered + area
    return 1 - covered / used, sheets


def filled(length, width, rows, due, extra):
    due, extra = list(due), list(extra)
    free, placements, total = [(0, 0, length, width)], [], 0
    order = sorted(range(len(rows)), key=lambda i: -rows[i][0] * rows[i][1])
    for stock in (due, extra):
        for i in order:
            across, up = rows[i][:2]
            while stock[i]:
                place = min(
                    (
                        (min(r - x - p, t - y - q), x + y, x, y, turned)
                        for x, y, r, t in free
                        for turned, (p, q) in enumerate(((across, up), (up, across)))
                        if r - x >= p and t - y >= q
                    ),
                    default=None,
                )
                if place is None:
                    break
                x, y, turned = place[2:]
                p, q = (up, across) if turned else (across, up)
                placements.append((i, x, y, turned))
                total += across * up
                stock[i] -= 1
                free = without(free, x, y, x + p, y + q)
    return placements, total, (due, extra)


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
