def choose_action(position: float, velocity: float) -> float:
    """Full force the way the car rolls."""
    return 1.0 if velocity >= 0 else -1.0
