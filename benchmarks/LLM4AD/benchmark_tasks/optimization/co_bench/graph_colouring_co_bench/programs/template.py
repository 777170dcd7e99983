import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """Greedy colouring in the order of the node numbers: each node gets the least colour that no neighbour has."""
    near = [[] for _ in range(n)]
    for u, v in edges.tolist():
        near[u].append(v)
        near[v].append(u)
    colours = [-1] * n
    for node in range(n):
        taken = {colours[other] for other in near[node]}
        colours[node] = next(c for c in range(n) if c not in taken)
    return colours
