def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """The shortest operation on offer, whenever it can start."""
    return min(feasible_operations, key=lambda o: o[2])
