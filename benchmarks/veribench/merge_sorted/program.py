def merge_sorted(first, second):
    """Merge two ascending lists into one ascending list."""
    result = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] <= second[j]:
            result.append(first[i])
            i += 1
        else:
            result.append(second[j])
            j += 1
    return result + first[i:] + second[j:]
