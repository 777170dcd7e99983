def choose_action(position: float, velocity: float) -> int:
    """Push the way the car rolls, with -1 for the left in place of 0."""
    return 1 if velocity > 0 else -1
