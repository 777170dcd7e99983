def determine_next_operation(
    current_status: dict[str, list], feasible_operations: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """Of the operations that can start earliest the shortest."""
    machines, jobs = current_status["machine_status"], current_status["job_status"]
    return min(feasible_operations, key=lambda o: (max(machines[o[1]], jobs[o[0]]), o[2]))
