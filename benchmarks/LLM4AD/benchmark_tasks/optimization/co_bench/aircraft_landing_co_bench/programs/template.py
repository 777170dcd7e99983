def solve(
    num_planes: int,
    num_runways: int,
    freeze_time: float,
    planes: list[dict[str, float]],
    separation: list[list[float]],
) -> dict[str, list]:
    """Planes in the order of their targets, each on the runway where it can land first, not before its target."""
    times, runways = [0.0] * num_planes, [0] * num_planes
    landed = [[] for _ in range(num_runways)]
    for j in sorted(range(num_planes), key=lambda i: planes[i]["target"]):
        free = [max([planes[j]["target"]] + [times[i] + separation[i][j] for i in row]) for row in landed]
        times[j] = min(free)
        runways[j] = free.index(times[j])
        landed[runways[j]].append(j)
    return {"landing_times": times, "runways": runways}
