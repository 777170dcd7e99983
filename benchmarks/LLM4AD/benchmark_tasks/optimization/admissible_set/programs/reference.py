LEVEL = 5

SIGNS = {
    "01333": "00110", "02233": "00011", "02323": "01110", "02332": "00110", "03133": "00100", "03223": "00011",
    "03232": "00001", "03313": "01110", "03322": "00111", "03331": "00010", "11233": "00011", "11323": "10100",
    "11332": "00111", "12133": "10011", "12223": "01011", "12232": "01001", "12313": "11110", "12322": "01111",
    "13132": "10101", "13222": "10111", "22222": "11111",
    "0133": "0001", "0223": "0000", "0232": "0001", "0313": "0011", "0322": "0001", "0331": "0111", "1123": "1011",
    "1132": "1111", "1213": "1011", "1222": "1001",
}  # fmt: skip
"""For the weights of the blocks of a vector the signs of its blocks, in a set of 3003 (n = 15, w = 10), and in one of
792 (n = 12, w = 7)."""

KNOWN = {1: 0, 2: 0, 3: 2, 4: 4, 5: 5}[LEVEL]


def priority(el: tuple[int, ...], n: int, w: int) -> float:
    """First the elements of a full set that does not change if the blocks are rotated, then the largest orbits.

    A block is 000 or has a weight of 1 to 3 and one of two signs (001, 012, 111 or 002, 021, 222). Three orbits clash
    if
    in each block signs of two of them are equal, or different, as its three weights say; so the signs are an assignment
    that satisfies clauses, one set of signs for each choice of weights. Symmetry in blocks (Romera-Paredes et al.,
    Nature 625, 2024) and under their rotation leaves 91 signs for n = 15, which a SAT solver finds. Lower levels know
    less of them.
    """
    blocks = [el[start : start + 3] for start in range(0, n, 3)]
    if LEVEL == 1:
        return float(sum(block in ((0, 1, 2), (0, 2, 1)) for block in blocks))
    turning = float(sum(len(set(block)) > 1 for block in blocks))
    weights = [sum(entry > 0 for entry in block) for block in blocks]
    signs = ["01"[block in ((0, 0, 2), (0, 2, 1), (2, 2, 2))] for block in blocks]
    return turning + 10.0 * (turning > len(blocks) - KNOWN and member(weights, signs))


def member(weights, signs):
    """Whether the table has these signs, after some rotation of the blocks."""
    for k in range(len(weights)):
        rotated = "".join(map(str, weights[k:] + weights[:k]))
        if rotated in SIGNS:
            return SIGNS[rotated] == "".join(signs[k:] + signs[:k])
    return False
