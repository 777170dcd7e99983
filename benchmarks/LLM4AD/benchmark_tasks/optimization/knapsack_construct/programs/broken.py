def select_next_item(
    remaining_capacity: int, remaining_items: list[tuple[int, int, int]]
) -> tuple[int, int, int] | None:
    """The item with most value per weight, by its index alone."""
    return max(remaining_items, key=lambda item: item[1] / item[0])[2]
