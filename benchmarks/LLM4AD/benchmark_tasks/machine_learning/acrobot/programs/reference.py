def choose_action(
    cos_theta1: float,
    sin_theta1: float,
    cos_theta2: float,
    sin_theta2: float,
    angular_velocity1: float,
    angular_velocity2: float,
) -> int:
    """A linear rule with full torque either way (linear policies: Szita and Lorincz, 2006, found by the cross-entropy
    method, as these weights were): mostly energy pumping along the second joint's velocity, timed by the angles."""
    sin_both = sin_theta1 * cos_theta2 + cos_theta1 * sin_theta2
    push = -0.7 * angular_velocity1 + 1.3 * angular_velocity2 + 2.2 * sin_theta1 - 0.65 * sin_theta2 - 1.15 * sin_both
    return 2 if push > 0 else 0
