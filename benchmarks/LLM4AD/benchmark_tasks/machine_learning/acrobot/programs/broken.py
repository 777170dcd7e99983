def choose_action(
    cos_theta1: float,
    sin_theta1: float,
    cos_theta2: float,
    sin_theta2: float,
    angular_velocity1: float,
    angular_velocity2: float,
) -> float:
    """Answers the torque in place of the number of the action."""
    return 1.0 if angular_velocity2 > 0 else -1.0
