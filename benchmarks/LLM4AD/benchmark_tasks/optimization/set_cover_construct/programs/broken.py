def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> list[int]:
    """Answers with the elements of the subset where its position is asked for."""
    return max(remaining_subsets, key=len)
