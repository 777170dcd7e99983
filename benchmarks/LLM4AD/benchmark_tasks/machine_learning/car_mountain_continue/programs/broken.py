def choose_action(position: float, velocity: float) -> float:
    """Twice the force that there is, the way the car rolls."""
    return 2.0 if velocity >= 0 else -2.0
