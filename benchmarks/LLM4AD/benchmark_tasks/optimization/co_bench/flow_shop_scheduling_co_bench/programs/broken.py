def solve(n: int, m: int, matrix: list[list[int]]) -> list[int]:
    """Counts jobs from 1, and so names one that there is not."""
    return sorted(range(1, n + 1), key=lambda j: -sum(matrix[j - 1]))
