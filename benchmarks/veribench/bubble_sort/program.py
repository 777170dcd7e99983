def bubble_sort(xs: list[int]) -> list[int]:
    """Return the entries of xs in ascending order; the argument is not changed.

    Each pass goes from the end to the front and swaps neighbours that are out of order, so that the least of the
    entries that are left comes to the front of them.
    """
    result = list(xs)
    for done in range(len(result)):
        for i in range(len(result) - 1, done, -1):
            if result[i] < result[i - 1]:
                result[i - 1], result[i] = result[i], result[i - 1]
    return result
