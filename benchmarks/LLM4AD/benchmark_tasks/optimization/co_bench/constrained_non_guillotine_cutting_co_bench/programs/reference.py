import numpy as np

LEVEL = 5

GREEDY = {1: 1, 2: 10, 3: 150, 4: 150, 5: 150}[LEVEL]
MOVES = {1: 0, 2: 0, 3: 0, 4: 300, 5: 8000}[LEVEL]
LOSS = 0.06


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """Best of many randomized greedy patterns on maximal free rectangles (Jylänki, A thousand ways to pack the bin,
    2010): what must be cut first, then pieces by value for their area and chance, each where it leaves the shortest
    side (compare Alvarez-Valdes, Parreño, Tamarit, 2005). Then, again and again, the pieces around a point are removed
    and the room is filled anew, which is kept unless the value falls, at first by more than a little (ruin and
    recreate: Schrimpf et al., 2000)."""
    rng = np.random.default_rng(1)
    rows, sheet = pieces.tolist(), (stock_length, stock_width)
    area = pieces[:, 0] * pieces[:, 1]
    weights = pieces[:, 4] / area * (area / area.max()) ** 0.3
    best, best_value = None, -1
    for turn in range(GREEDY):
        trial = weights * rng.lognormal(0.0, 0.3, len(rows)) if turn else weights
        found = filled(sheet, rows, [], trial)
        value = worth(rows, found)
        if value > best_value:
            best, best_value, weights = found, value, trial
    current, current_value = best, best_value
    for move in range(MOVES if best else 0):
        kept = ruined(sheet, rows, current, rng)
        found = filled(sheet, rows, kept, weights * rng.lognormal(0.0, rng.choice([0.1, 0.5]), len(rows)))
        value = worth(rows, found)
        if value >= current_value - LOSS * best_value * (1 - move / MOVES) * rng.random():
            current, current_value = found, value
        if value > best_value:
            best, best_value = found, value
    return best or [(i, x, y) for i, x, y in filled(sheet, rows, [], -area.astype(float))]


def worth(rows, placements):
    """The value, or -1 if too few of a type are cut."""
    number = [0] * len(rows)
    for i, _, _ in placements:
        number[i] += 1
    if any(n < row[2] for n, row in zip(number, rows, strict=True)):
        return -1
    return sum(rows[i][4] for i, _, _ in placements)


def ruined(sheet, rows, placements, rng):
    """The pieces that do not meet a random rectangle."""
    a, b = (rng.integers(0, side) for side in sheet)
    wide, high = (rng.uniform(0.05, 0.5) * side for side in sheet)
    return [
        (i, x, y)
        for i, x, y in placements
        if x >= a + wide or x + rows[i][0] <= a or y >= b + high or y + rows[i][1] <= b
    ]


def filled(sheet, rows, placed, weights):
    """The pieces placed and others, by weight, at free places."""
    free, left = [(0, 0, *sheet)], [row[3] for row in rows]
    for i, x, y in placed:
        left[i] -= 1
        free = without(free, x, y, x + rows[i][0], y + rows[i][1])
    placements = list(placed)
    due = [max(0, row[2] - (row[3] - n)) for row, n in zip(rows, left, strict=True)]
    order = np.argsort(-weights, kind="stable").tolist()
    for i, number in [(i, due[i]) for i in order] + [(i, left[i] - due[i]) for i in order]:
        across, up = rows[i][:2]
        for _ in range(number):
            place = min(
                (
                    (min(r - x - across, t - y - up), x + y, x, y)
                    for x, y, r, t in free
                    if r - x >= across and t - y >= up
                ),
                default=None,
            )
            if place is None:
                break
            x, y = place[2:]
            placements.append((i, x, y))
            free = without(free, x, y, x + across, y + up)
    return placements


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
