def list_max(numbers):
    """Return the largest of the numbers, or None if there are none."""
    best = None
    for number in numbers:
        if best is None or number > best:
            best = number
    return best
