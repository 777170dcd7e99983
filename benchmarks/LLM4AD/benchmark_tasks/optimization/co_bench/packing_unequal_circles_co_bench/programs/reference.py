import numpy as np
from scipy.optimize import minimize

LEVEL = 3

TRIES = {1: 1, 2: 6, 3: 40}[LEVEL]
HOPS = {1: 0, 2: 0, 3: 150}[LEVEL]
MARGIN = 1e-7


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[float, float]]:
    """For growing k the first k circles, largest first, each where it touches two others and is closest to a third (the
    maximal hole degree of Huang, Li, Akeb and Li, 2005); later tries disturb the order. Then, as long as that succeeds,
    one circle more, by minimizing overlaps from these centres on."""
    rng = np.random.default_rng(1)
    full = np.cumsum(radii**2) / container_radius**2
    number = max(1, int((full <= 0.6).sum()))
    best = packed(container_radius, radii[:number], rng)
    while best is None and number > 1:
        number -= 1
        best = packed(container_radius, radii[:number], rng)
    while number < len(radii) and full[number] < 1:
        found = packed(container_radius, radii[: number + 1], rng)
        if found is None:
            break
        best, number = found, number + 1
    while HOPS and number < len(radii) and full[number] < 0.95 and radii[number] + radii[number - 1] < container_radius:
        new = vacancy(container_radius, radii[number], radii[:number], best, rng)
        found = hopped(container_radius, radii[: number + 1], np.vstack([best, new]), HOPS, rng)
        if found is None:
            break
        best, number = found, number + 1
    return [tuple(row) for row in best.tolist()]


def packed(container, radii, rng):
    for turn in range(TRIES):
        order = np.argsort(-radii * (rng.uniform(0.8, 1.0, len(radii)) if turn else 1.0), kind="stable")
        centres = np.zeros((len(radii), 2))
        for at, item in enumerate(order):
            before = order[:at]
            points, third = holes(container, radii[item], centres[before], radii[before])
            if not len(points):
                break
            centres[item] = points[third.argmin()]
        else:
            return centres
    return None


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
