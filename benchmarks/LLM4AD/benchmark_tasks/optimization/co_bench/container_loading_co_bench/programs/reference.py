import numpy as np

LEVEL = 5

ROUNDS = {1: 1, 2: 1, 3: 8, 4: 50, 5: 400}[LEVEL]


def solve(
    container: list[int], sizes: np.ndarray, vertical: np.ndarray, counts: np.ndarray
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Blocks in maximal spaces, as Parreño, Alvarez-Valdes, Tamarit and Oliveira (2008) build them: in the free space
    nearest to the origin the block of equal boxes of greatest volume. Later rounds weigh volumes at random, partly by a
    factor for each orientation of a type; these factors are inherited from the best round so far. Level 1
    places single boxes, level 2 columns."""
    rng = np.random.default_rng(1)
    stands = [orientations(size, up) for size, up in zip(sizes.tolist(), vertical.tolist(), strict=True)]
    best, best_volume, factors = [], -1, [np.ones(len(options)) for options in stands]
    for turn in range(max(1, ROUNDS * 12 // max(len(sizes), 12))):
        spread = SPREADS[turn % len(SPREADS)] if turn else 0.0
        trial = [f * rng.lognormal(0.0, spread, len(f)) for f in factors]
        noise = NOISE[turn % len(NOISE)] if turn else 0.0
        found, volume = loaded(tuple(container), stands, counts.tolist(), trial, noise, rng)
        if volume > best_volume:
            best, best_volume, factors = found, volume, trial
    return best


SPREADS, NOISE = (0.1, 0.3, 0.0), (0.0, 0.3)
WIDEST = 1 if LEVEL == 1 else 10**6


def orientations(size, up):
    found = set()
    for axis in range(3):
        if up[axis]:
            a, b = (size[k] for k in range(3) if k != axis)
            found |= {(a, b, size[axis]), (b, a, size[axis])}
    return sorted(found)


def loaded(container, stands, counts, factors, noise, rng):
    spaces, placements, volume = [(0, 0, 0, *container)], [], 0
    left = list(counts)
    while spaces:
        space = min(spaces, key=lambda s: (s[0], s[2], s[1]))
        block = best_block(space, stands, left, factors, noise, rng)
        if block is None:
            spaces.remove(space)
            continue
        kind, (dx, dy, dz), (nx, ny, nz) = block
        x, y, z = space[:3]
        for i in range(nx):
            for j in range(ny):
                for k in range(nz):
                    placements.append((kind, x + i * dx, y + j * dy, z + k * dz, dx, dy, dz))
        left[kind] -= nx * ny * nz
        volume += nx * ny * nz * dx * dy * dz
        smallest = min((min(s[0]) for s, n in zip(stands, left, strict=True) if n), default=10**9)
        spaces = without(spaces, (x, y, z, x + nx * dx, y + ny * dy, z + nz * dz), smallest)
    return placements, volume


def best_block(space, stands, left, factors, noise, rng):
    a, b, c = space[3] - space[0], space[4] - space[1], space[5] - space[2]
    best, best_value = None, 0
    for kind, number in enumerate(left):
        if not number:
            continue
        for stand, factor in zip(stands[kind], factors[kind].tolist(), strict=True):
            dx, dy, dz = stand
            nz = min(c // dz, number)
            ny = min(b // dy, number // nz) if nz else 0
            nx = min(a // dx, number // (nz * ny)) if ny else 0
            if LEVEL <= 2:
                nx, ny, nz = min(nx, 1), min(ny, 1), min(nz, WIDEST)
            value = nx * ny * nz * dx * dy * dz * factor
            if noise:
                value *= 1.0 - noise * rng.random()
            if value > best_value:
                best, best_value = (kind, stand, (nx, ny, nz)), value
    return best


def without(spaces, block, smallest):
    kept, cut = [], set()
    for space in spaces:
        if any(block[k] >= space[k + 3] or block[k + 3] <= space[k] for k in range(3)):
            kept.append(space)
            continue
        for k in range(3):
            if block[k] - space[k] >= smallest:
                cut.add((*space[: k + 3], block[k], *space[k + 4 :]))
            if space[k + 3] - block[k + 3] >= smallest:
                cut.add((*space[:k], block[k + 3], *space[k + 1 :]))
    for part in sorted(cut):
        others = kept + [other for other in cut if other != part]
        if not any(all(o[k] <= part[k] and o[k + 3] >= part[k + 3] for k in range(3)) for o in others):
            kept.append(part)
    return kept
