import math
import random

LEVEL = 5
TRIALS = {1: 0, 2: 150, 3: 600, 4: 2000, 5: 8000}[LEVEL]
"""Moved planes; fewer of many planes, where each takes longer."""


def solve(
    num_planes: int,
    num_runways: int,
    freeze_time: float,
    planes: list[dict[str, float]],
    separation: list[list[float]],
) -> dict[str, list]:
    """Simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983) over the sequences of the runways (in the spirit of
    Pinol, Beasley, 2006): a plane goes to another place of any runway, or two planes change places. A sequence is timed
    by merging planes that push each other into blocks, and moving each block to where it costs least (the idea of
    Garey, Tarjan, Wilfong, 1988)."""
    rng = random.Random(1)
    order = sorted(range(num_planes), key=lambda i: planes[i]["target"])
    times, rows = [0.0] * num_planes, [[] for _ in range(num_runways)]
    for j in order:
        free = [max([planes[j]["target"]] + [times[i] + separation[i][j] for i in row]) for row in rows]
        times[j] = min(free)
        rows[free.index(times[j])].append(j)
    first = [list(row) for row in rows]
    costs = [cost(row, timed(row, planes, separation), planes, separation) for row in rows]
    best = (sum(costs), rows[:])
    trials = min(TRIALS, 200 * num_planes, 15_000_000 // (num_planes**2 + 500), 1_600_000_000 // num_planes**3)
    heat = 0.03 * sum(costs) if LEVEL > 3 and best[0] < float("inf") else 0.0
    for _ in range(trials):
        heat *= 0.002 ** (1 / trials)
        a, b = rng.randrange(num_runways), rng.randrange(num_runways)
        if not rows[a]:
            continue
        one, other = list(rows[a]), list(rows[b])
        place = rng.randrange(len(one))
        plane = one[place]
        near = sum(planes[i]["target"] <= planes[plane]["target"] for i in other)
        if a == b:
            one.pop(place)
            one.insert(min(max(0, place + rng.choice((-3, -2, -1, 1, 2, 3))), len(one)), plane)
            changed = {a: one}
        elif other and rng.random() < 0.5:
            there = min(max(0, near + rng.randrange(-3, 3)), len(other) - 1)
            one[place], other[there] = other[there], plane
            changed = {a: one, b: other}
        else:
            one.pop(place)
            other.insert(min(max(0, near + rng.choice((-2, -1, 0, 0, 1))), len(other)), plane)
            changed = {a: one, b: other}
        found = {r: cost(row, timed(row, planes, separation), planes, separation) for r, row in changed.items()}
        more = sum(found.values()) - sum(costs[r] for r in changed)
        if more <= 0 or (heat and rng.random() < math.exp(-more / heat)):
            for r, row in changed.items():
                rows[r], costs[r] = row, found[r]
            if sum(costs) < best[0]:
                best = (sum(costs), rows[:])
    if best[0] == float("inf"):
        return answer(first, [times[:] for _ in first], num_planes, True)
    return answer(best[1], [timed(row, planes, separation) for row in best[1]], num_planes, False)


def answer(rows, timetable, n, by_plane):
    times, runways = [0.0] * n, [0] * n
    for r, row in enumerate(rows):
        for place, plane in enumerate(row):
            times[plane] = timetable[r][plane if by_plane else place]
            runways[plane] = r
    return {"landing_times": times, "runways": runways}


def timed(row, planes, separation):
    """Landing times in this order; neighbours keep their distance."""
    blocks = []  # planes, their offsets within the block, its start
    for plane in row:
        block = [[plane], [0.0], best_start([plane], [0.0], planes)]
        while blocks:
            members, offsets, start = blocks[-1]
            gap = separation[members[-1]][block[0][0]]
            if start + offsets[-1] + gap <= block[2]:
                break
            blocks.pop()
            shift = offsets[-1] + gap
            members, offsets = members + block[0], offsets + [shift + o for o in block[1]]
            block = [members, offsets, best_start(members, offsets, planes)]
        blocks.append(block)
    return [start + offset for _, offsets, start in blocks for offset in offsets]


def best_start(members, offsets, planes):
    """Where a block costs least: the slope of its cost changes sign there. Windows cost a great deal."""
    corners, slope = [], 0.0
    for plane, offset in zip(members, offsets, strict=True):
        p = planes[plane]
        slope -= p["penalty_early"] + 1e6
        corners.append((p["earliest"] - offset, 1e6))
        corners.append((p["target"] - offset, p["penalty_early"] + p["penalty_late"]))
        corners.append((p["latest"] - offset, 1e6))
    for at, change in sorted(corners):
        slope += change
        if slope >= 0:
            return at
    return at


def cost(row, times, planes, separation):
    total = 0.0
    for place, (plane, time) in enumerate(zip(row, times, strict=True)):
        p = planes[plane]
        if not p["earliest"] <= time <= p["latest"]:
            return float("inf")
        if any(time - times[k] < separation[row[k]][plane] for k in range(max(0, place - 4), place)):
            return float("inf")
        total += p["penalty_early"] * max(0.0, p["target"] - time) + p["penalty_late"] * max(0.0, time - p["target"])
    return total
