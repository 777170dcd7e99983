import random


def solve(
    num_planes: int,
    num_runways: int,
    freeze_time: float,
    planes: list[dict[str, float]],
    separation: list[list[float]],
) -> dict[str, list]:
    """Local search over the sequences of the runways (in the spirit of Pinol, Beasley, 2006): a plane goes to another
    place of any runway. A sequence is timed by merging planes that push each other into blocks, and moving each block
    to where it costs least (the idea of Garey, Tarjan, Wilfong, 1988)."""
    rng = random.Random(1)
    order = sorted(range(num_planes), key=lambda i: planes[i]["target"])
    times, rows = [0.0] * num_planes, [[] for _ in range(num_runways)]
    for j in order:
        free = [max([planes[j]["target"]] + [times[i] + separation[i][j] for i in row]) for row in rows]
        times[j] = min(free)
        rows[free.index(times[j])].append(j)
    first = [list(row) for row in rows]
    costs = [cost(row, timed(row, planes, separation), planes, separation) for row in rows]
    for _ in range(min(500, 4_000_000 // num_planes**2)):  # less for many planes: a trial takes longer
        a, b = rng.randrange(num_runways), rng.randrange(num_runways)
        if not rows[a]:
            continue
        one, other = list(rows[a]), list(rows[b])
        place = rng.randrange(len(one))
        plane = one.pop(place)
        if a == b:
            near = place + rng.choice((-3, -2, -1, 1, 2, 3))
            one.insert(min(max(0, near), len(one)), plane)
            changed = {a: one}
        else:
            near = sum(planes[i]["target"] <= planes[plane]["target"] for i in other) + rng.choice((-1, 0, 0, 1))
            other.insert(min(max(0, near), len(other)), plane)
            changed = {a: one, b: other}
        found = {r: cost(row, timed(row, planes, separation), planes, separation) for r, row in changed.items()}
        if sum(found.values()) <= sum(costs[r] for r in changed):
            for r, row in changed.items():
                rows[r], costs[r] = row, found[r]
    if sum(costs) == float("inf"):
        return answer(first, [times[:] for _ in first], num_planes, True)
    return answer(rows, [timed(row, planes, separation) for row in rows], num_planes, False)


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
