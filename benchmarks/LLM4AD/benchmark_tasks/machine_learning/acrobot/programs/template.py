def choose_action(
    cos_theta1: float,
    sin_theta1: float,
    cos_theta2: float,
    sin_theta2: float,
    angular_velocity1: float,
    angular_velocity2: float,
) -> int:
    """Help the second link while it turns counterclockwise, and let it swing back freely."""
    return 2 if angular_velocity2 > 0 else 1
