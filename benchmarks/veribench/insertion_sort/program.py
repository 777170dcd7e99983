def insertion_sort(xs: list[int]) -> list[int]:
    """Return the entries of xs in ascending order; the argument is not changed.

    Each entry is put in front of the first entry of the result that is not below it.
    """
    result: list[int] = []
    for x in xs:
        place = 0
        while place < len(result) and result[place] < x:
            place += 1
        result.insert(place, x)
    return result
