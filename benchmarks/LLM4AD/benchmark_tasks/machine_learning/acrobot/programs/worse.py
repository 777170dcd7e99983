def choose_action(
    cos_theta1: float,
    sin_theta1: float,
    cos_theta2: float,
    sin_theta2: float,
    angular_velocity1: float,
    angular_velocity2: float,
) -> int:
    """Always the same torque, which lifts the second link once and no further."""
    return 2
