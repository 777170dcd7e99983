def choose_action(x: float, y: float, angular_velocity: float) -> float:
    """Takes the motor to be stronger than it is."""
    return 5.0 if angular_velocity < 0 else -5.0
