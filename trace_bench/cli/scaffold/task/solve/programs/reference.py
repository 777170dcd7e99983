import numpy as np


def task_entry(times: np.ndarray, n_machines: int) -> list[int]:
    """Longest processing time first (Graham, 1969): the next longest job goes to the machine with the least load."""
    loads = np.zeros(n_machines)
    machines = [0] * len(times)
    for job in np.argsort(-times, kind="stable"):
        machines[job] = int(loads.argmin())
        loads[machines[job]] += times[job]
    return machines
