def priority(el: tuple[int, ...], n: int, w: int) -> float:
    """The largest orbits first: an element counts for three vectors by each block that turning changes. The greedy
    growth itself is that of Romera-Paredes et al. (Nature 625, 2024)."""
    blocks = [el[start : start + 3] for start in range(0, n, 3)]
    return float(sum(len(set(block)) > 1 for block in blocks))
