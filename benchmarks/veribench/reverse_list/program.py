def reverse_list(values):
    """Return a new list with the values in reverse order."""
    result = []
    for value in values:
        result = [value, *result]
    return result
