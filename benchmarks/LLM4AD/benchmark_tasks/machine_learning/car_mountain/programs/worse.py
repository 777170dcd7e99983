def choose_action(position: float, velocity: float) -> int:
    """Always push to the right, which alone does not reach the flag."""
    return 2
