def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> int:
    """Greedy: the subset with the most elements that are not covered yet."""
    missing = set(remaining_elements)
    return max(range(len(remaining_subsets)), key=lambda i: len(missing.intersection(remaining_subsets[i])))
