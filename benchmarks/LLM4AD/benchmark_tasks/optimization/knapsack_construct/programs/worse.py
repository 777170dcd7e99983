def select_next_item(
    remaining_capacity: int, remaining_items: list[tuple[int, int, int]]
) -> tuple[int, int, int] | None:
    """The heaviest item, to fill the knapsack soon."""
    return max(remaining_items, key=lambda item: item[0])
