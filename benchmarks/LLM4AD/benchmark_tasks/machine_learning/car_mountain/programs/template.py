def choose_action(position: float, velocity: float) -> int:
    """Push to the right while the car rolls to the right, and let it roll back freely."""
    return 2 if velocity > 0 else 1
