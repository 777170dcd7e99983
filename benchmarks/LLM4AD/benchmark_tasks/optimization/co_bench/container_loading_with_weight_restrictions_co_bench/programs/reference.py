import numpy as np

LEVEL = 5

ROUNDS = {1: 1, 2: 1, 3: 6, 4: 40, 5: 400}[LEVEL]
SPREADS, NOISE = (0.1, 0.3, 0.0), (0.0, 0.4)
HIGHEST = 1 if LEVEL == 1 else 10**6


def solve(
    container: list[int],
    sizes: np.ndarray,
    vertical: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Blocks of equal boxes, each on the floor or within the top of one other block (after Ratcliff and Bischoff,
    1998). With each free space goes the pressure that what is below it still bears; a block on top takes its share of
    that. Of the blocks that fit a space the one of greatest volume is taken. Later rounds weigh volumes at random,
    partly
    by a factor for each orientation of a type; these factors are inherited from the best round so far. Level 1
    places single boxes, level 2 columns."""
    rng = np.random.default_rng(1)
    stands = []
    for size, up, weight, strength in zip(
        sizes.tolist(), vertical.tolist(), weights.tolist(), strengths.tolist(), strict=True
    ):
        options = []
        for axis in range(3):
            a, b = (size[k] for k in range(3) if k != axis)
            if up[axis]:
                options += [(p, q, size[axis], weight / (a * b), strength[axis]) for p, q in ((a, b), (b, a))]
        stands.append(options)
    best, best_volume, factors = [], -1, [np.ones(len(options)) for options in stands]
    for turn in range(max(1, ROUNDS * 12 // max(len(sizes), 12))):
        spread = SPREADS[turn % len(SPREADS)] if turn else 0.0
        trial = [f * rng.lognormal(0.0, spread, len(f)) for f in factors]
        noise = NOISE[turn % len(NOISE)] if turn else 0.0
        found, volume = loaded(container, stands, counts.tolist(), trial, noise, rng)
        if volume > best_volume:
            best, best_volume, factors = found, volume, trial
    return best


def loaded(container, stands, counts, factors, noise, rng):
    spaces, placements, volume = [(0, 0, 0, *container, 1e12)], [], 0
    left = list(counts)
    while spaces:
        spaces.sort(key=lambda s: (-s[2], s[3] * s[4]), reverse=True)
        x, y, z, a, b, c, bears = spaces.pop()
        block = best_block(a, b, c, bears, stands, left, factors, noise, rng)
        if block is None:
            continue
        kind, (dx, dy, dz, pressure, strength), (nx, ny, nz) = block
        for i in range(nx):
            for j in range(ny):
                for k in range(nz):
                    placements.append((kind, x + i * dx, y + j * dy, z + k * dz, dx, dy, dz))
        left[kind] -= nx * ny * nz
        volume += nx * ny * nz * dx * dy * dz
        p, q, r = nx * dx, ny * dy, nz * dz
        if (a - p) * b > a * (b - q):
            spaces += [(x + p, y, z, a - p, b, c, bears), (x, y + q, z, p, b - q, c, bears)]
        else:
            spaces += [(x + p, y, z, a - p, q, c, bears), (x, y + q, z, a, b - q, c, bears)]
        remaining = min(bears - nz * pressure, strength - (nz - 1) * pressure) * (1 - 1e-12)
        spaces.append((x, y, z + r, p, q, c - r, remaining))
    return placements, volume


def best_block(a, b, c, bears, stands, left, factors, noise, rng):
    best, best_value = None, 0
    for kind, number in enumerate(left):
        if not number:
            continue
        for stand, factor in zip(stands[kind], factors[kind].tolist(), strict=True):
            dx, dy, dz, pressure, strength = stand
            nz = min(c // dz, number, int(bears / pressure), 1 + int(strength / pressure * (1 - 1e-12)))
            ny = min(b // dy, number // nz) if nz > 0 else 0
            nx = min(a // dx, number // (nz * ny)) if ny else 0
            if LEVEL <= 2:
                nx, ny, nz = min(nx, 1), min(ny, 1), min(nz, HIGHEST)
            value = nx * ny * nz * dx * dy * dz * factor
            if noise:
                value *= 1.0 - noise * rng.random()
            if value > best_value:
                best, best_value = (kind, stand, (nx, ny, nz)), value
    return best
