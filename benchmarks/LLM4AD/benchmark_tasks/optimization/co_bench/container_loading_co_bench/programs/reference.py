import numpy as np

ROUNDS = 6


def solve(
    container: list[int], sizes: np.ndarray, vertical: np.ndarray, counts: np.ndarray
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Blocks in maximal spaces, as Parreño, Alvarez-Valdes, Tamarit and Oliveira (2008) build them: in the free space
    nearest to the origin the block of equal boxes of greatest volume; the best of a few randomized rounds."""
    rng = np.random.default_rng(1)
    stands = [orientations(size, up) for size, up in zip(sizes.tolist(), vertical.tolist(), strict=True)]
    best, best_volume = [], -1
    for turn in range(ROUNDS):
        found, volume = loaded(tuple(container), stands, counts.tolist(), rng if turn else None)
        if volume > best_volume:
            best, best_volume = found, volume
    return best


def orientations(size, up):
    found = set()
    for axis in range(3):
        if up[axis]:
            a, b = (size[k] for k in range(3) if k != axis)
            found |= {(a, b, size[axis]), (b, a, size[axis])}
    return sorted(found)


def loaded(container, stands, counts, rng):
    spaces, placements, volume = [(0, 0, 0, *container)], [], 0
    left = list(counts)
    while spaces:
        space = min(spaces, key=lambda s: (s[0], s[2], s[1]))
        block = best_block(space, stands, left, rng)
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


def best_block(space, stands, left, rng):
    a, b, c = space[3] - space[0], space[4] - space[1], space[5] - space[2]
    best, best_value = None, 0
    for kind, number in enumerate(left):
        if not number:
            continue
        for stand in stands[kind]:
            dx, dy, dz = stand
            nz = min(c // dz, number)
            ny = min(b // dy, number // nz) if nz else 0
            nx = min(a // dx, number // (nz * ny)) if ny else 0
            value = nx * ny * nz * dx * dy * dz * (rng.uniform(0.6, 1.0) if rng else 1.0)
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
