def priority(el: tuple[int, ...], n: int, w: int) -> float:
    """One number for each place of the element instead of one for the element."""
    return [float(entry == 1) for entry in el]
