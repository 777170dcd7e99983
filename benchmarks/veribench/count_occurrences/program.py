def count_occurrences(wanted, values):
    """Return how many of the values are equal to the wanted one."""
    count = 0
    for value in values:
        if value == wanted:
            count += 1
    return count
