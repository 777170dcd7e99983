def choose_action(position: float, velocity: float) -> float:
    """Full force to the right, which alone does not reach the flag."""
    return 1.0
