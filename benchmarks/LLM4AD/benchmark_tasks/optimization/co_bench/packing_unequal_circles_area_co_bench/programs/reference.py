import numpy as np

TRIES = 24


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[int, float, float]]:
    """Largest first, each where it touches two others and is closest to a third (the maximal hole degree of Huang, Li,
    Akeb and Li, 2005), left out where there is no room; the best of some tries that disturb the order."""
    rng = np.random.default_rng(1)
    best, best_area = [], -1.0
    for turn in range(TRIES):
        order = np.argsort(-radii * (rng.uniform(0.6, 1.0, len(radii)) if turn else 1.0), kind="stable")
        items, centres = [], np.zeros((0, 2))
        for item in order.tolist():
            if radii[item] > container_radius:
                continue
            points, third = holes(container_radius, radii[item], centres, radii[items])
            if len(points):
                centres = np.vstack([centres, points[third.argmin()]])
                items.append(item)
        area = float((radii[items] ** 2).sum())
        if area > best_area:
            best_area = area
            best = [(item, float(x), float(y)) for item, (x, y) in zip(items, centres, strict=True)]
    return best


def holes(container, radius, centres, radii):
    """Centres where a circle of this radius touches two of the others or one and the border, overlaps none, and by how
    much it clears the nearest of those that it does not touch."""
    if not len(radii):
        return np.array([[radius - container, 0.0]]), np.zeros(1)
    reach = np.append(radii + radius, container - radius)
    middle = np.vstack([centres, [0.0, 0.0]])
    i, j = np.triu_indices(len(reach), k=1)
    between = middle[j] - middle[i]
    apart = np.maximum(np.hypot(*between.T), 1e-12)
    along = (apart**2 + reach[i] ** 2 - reach[j] ** 2) / (2 * apart)
    square = reach[i] ** 2 - along**2
    good = square >= 0
    across = np.sqrt(square[good])[:, None] * (between[good] / apart[good][:, None])[:, ::-1] * [-1, 1]
    foot = middle[i[good]] + between[good] * (along[good] / apart[good])[:, None]
    points = np.vstack([foot + across, foot - across])
    gaps = np.hypot(points[:, None, 0] - centres[None, :, 0], points[:, None, 1] - centres[None, :, 1]) - radii - radius
    gaps = np.column_stack([gaps, container - radius - np.hypot(*points.T)])
    fine = gaps.min(axis=1) >= -1e-11 * container
    third = np.sort(gaps[fine], axis=1)[:, min(2, gaps.shape[1] - 1)] if fine.any() else np.zeros(0)
    return points[fine], third
