def select_next_item(
    remaining_capacity: int, remaining_items: list[tuple[int, int, int]]
) -> tuple[int, int, int] | None:
    """The most valuable item, whatever it weighs."""
    return max(remaining_items, key=lambda item: item[1])
