def binary_search(xs: list[int], target: int) -> int | None:
    """Return the index of the first occurrence of target in the sorted list xs.

    The result is None if target does not occur.
    Entries before lo are below target; entries from hi on are not below it.
    """
    lo, hi = 0, len(xs)
    while lo < hi:
        mid = (lo + hi) // 2
        if xs[mid] < target:
            lo = mid + 1
        else:
            hi = mid
    if lo < len(xs) and xs[lo] == target:
        return lo
    return None
