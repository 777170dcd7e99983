def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """The longest operation that is left, whether it is its turn or not."""
    times, machines = current_status["times"], current_status["machines"]
    left = [
        (job, int(machines[job][k]), int(times[job][k]))
        for job, first in enumerate(current_status["next_operation"])
        for k in range(first, len(times[job]))
    ]
    return max(left, key=lambda o: o[2])
