def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> int:
    """The first subset that covers anything new."""
    missing = set(remaining_elements)
    return next(i for i, subset in enumerate(remaining_subsets) if missing.intersection(subset))
