def select_next_item(
    remaining_capacity: int, remaining_items: list[tuple[int, int, int]]
) -> tuple[int, int, int] | None:
    """The item with most value per weight (Dantzig, Discrete-variable extremum problems, 1957)."""
    return max(remaining_items, key=lambda item: item[1] / item[0])
