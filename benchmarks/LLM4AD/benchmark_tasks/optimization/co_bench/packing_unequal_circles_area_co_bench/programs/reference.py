import numpy as np
from scipy.optimize import minimize

LEVEL = 5

TRIES = {1: 1, 2: 4, 3: 24, 4: 40, 5: 40}[LEVEL]
EXCHANGES = {1: 0, 2: 0, 3: 0, 4: 0, 5: 500}[LEVEL]
HOPS = 1
MARGIN = 1e-7


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[int, float, float]]:
    """Largest first, each where it touches two others and is closest to a third (the maximal hole degree of Huang, Li,
    Akeb and Li, 2005), left out where there is no room; the best of some tries that disturb the order. Then circles are
    added, or exchanged for others with more area in all, where minimizing overlaps finds room for them."""
    rng = np.random.default_rng(1)
    items, centres, best_area = [], np.zeros((0, 2)), -1.0
    for turn in range(TRIES):
        order = np.argsort(-radii * (rng.uniform(0.6, 1.0, len(radii)) if turn else 1.0), kind="stable")
        found, points = greedy(container_radius, radii, order.tolist())
        area = float((radii[found] ** 2).sum())
        if area > best_area:
            items, centres, best_area = found, points, area
    items = np.array(items, dtype=int)
    for _ in range(min(EXCHANGES, EXCHANGES * 1600 // len(radii) ** 2)):  # a trial of many circles takes longer
        out = np.setdiff1d(np.arange(len(radii)), items)
        number = int(rng.integers(0, 3))
        if not len(out) or number >= len(items):
            continue
        leave = rng.choice(len(items), number, replace=False)
        room = container_radius**2 - best_area + float((radii[items[leave]] ** 2).sum())
        come = []
        for item in rng.permutation(out)[: number + 1].tolist():
            if radii[item] ** 2 < 0.95 * room and len(come) <= number:
                come.append(item)
                room -= radii[item] ** 2
        area = best_area + float((radii[come] ** 2).sum() - (radii[items[leave]] ** 2).sum())
        if area <= best_area:
            continue
        trial, points = np.delete(items, leave), np.delete(centres, leave, axis=0)
        for item in sorted(come, key=lambda item: -radii[item]):
            points = np.vstack([points, vacancy(container_radius, radii[item], radii[trial], points, rng)])
            trial = np.append(trial, item)
        points = hopped(container_radius, radii[trial], points, HOPS, rng)
        if points is not None:
            items, centres, best_area = trial, points, area
    return [(item, x, y) for item, (x, y) in zip(items.tolist(), centres.tolist(), strict=True)]


def greedy(container, radii, order):
    items, centres = [], np.zeros((0, 2))
    for item in order:
        if radii[item] > container:
            continue
        points, third = holes(container, radii[item], centres, radii[items])
        if len(points):
            centres = np.vstack([centres, points[third.argmin()]])
            items.append(item)
    return items, centres


def relaxed(container, radii, centres):
    """Centres moved to a local minimum of the squared overlaps of circles a little larger, and these squares."""
    apart = (radii[:, None] + radii[None, :]) * (1 + MARGIN)
    np.fill_diagonal(apart, 0.0)
    reach = container - radii * (1 + MARGIN)

    def energy(flat):
        points = flat.reshape(-1, 2)
        delta = points[:, None] - points[None, :]
        distance = np.sqrt((delta**2).sum(axis=2)) + 1e-12
        overlap = np.maximum(apart - distance, 0.0)
        norm = np.sqrt((points**2).sum(axis=1)) + 1e-12
        beyond = np.maximum(norm - reach, 0.0)
        slope = 2 * (beyond / norm)[:, None] * points - 2 * ((overlap / distance)[..., None] * delta).sum(axis=1)
        return 0.5 * (overlap**2).sum() + (beyond**2).sum(), slope.ravel()

    found = minimize(energy, centres.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300, "gtol": 1e-9})
    return found.x.reshape(-1, 2), found.fun


def fits(container, radii, centres):
    """Whether the circles lie in the container and apart, as they are."""
    gaps = np.hypot(*(centres[:, None] - centres[None, :]).transpose(2, 0, 1)) - radii[:, None] - radii[None, :]
    np.fill_diagonal(gaps, np.inf)
    return min(gaps.min(), (container - radii - np.hypot(*centres.T)).min()) >= -1e-12 * container


def vacancy(container, radius, radii, centres, rng):
    """Of some random points the one where a circle of this radius overlaps least."""
    points = rng.uniform(-1.0, 1.0, (60, 2))
    points = points[np.hypot(*points.T) <= 1.0] * (container - radius)
    gaps = np.hypot(*(points[:, None] - centres[None, :]).transpose(2, 0, 1)) - radii
    return points[gaps.min(axis=1).argmax()] if len(radii) else points[0]


def hopped(container, radii, centres, hops, rng):
    """Centres where all circles fit, from those given: basin hopping (Wales and Doye, 1997) on squared overlaps, which
    moves a circle to a vacancy or lets two change places. None if none are found."""
    current, least = relaxed(container, radii, centres)
    for _ in range(hops):
        if fits(container, radii, current):
            return current
        trial = current.copy()
        a, b = rng.choice(len(radii), 2, replace=False)
        if rng.random() < 0.5:
            others = np.arange(len(radii)) != a
            trial[a] = vacancy(container, radii[a], radii[others], trial[others], rng)
        else:
            trial[[a, b]] = trial[[b, a]]
        trial, value = relaxed(container, radii, trial)
        if value < least * (1 + 0.05 * rng.random()):
            current, least = trial, value
    return current if fits(container, radii, current) else None


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
