import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """Nodes in the order of their numbers, each taken if none of its neighbours was."""
    near = [[] for _ in range(n)]
    for u, v in edges.tolist():
        near[u].append(v)
        near[v].append(u)
    taken, barred = [], set()
    for node in range(n):
        if node not in barred:
            taken.append(node)
            barred.update(near[node])
    return taken
