def priority(el: tuple[int, ...], n: int, w: int) -> float:
    """Elements with many entries 1 first."""
    return float(sum(entry == 1 for entry in el))
