def solve(
    n_jobs: int, n_machines: int, init_time: int, setup_times: list[int], processing_times: list[int]
) -> dict[str, list[int]]:
    """Machines by turns; the server takes the jobs as they are numbered."""
    return {"permutation": list(range(n_jobs)), "batch_assignment": [job % n_machines for job in range(n_jobs)]}
