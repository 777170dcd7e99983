def choose_action(
    x: float,
    y: float,
    velocity_x: float,
    velocity_y: float,
    angle: float,
    angular_velocity: float,
    left_contact: float,
    right_contact: float,
) -> int:
    """Brake when falling fast, else turn upright."""
    if velocity_y < -0.25:
        return 2
    if angle > 0.1:
        return 3
    if angle < -0.1:
        return 1
    return 0
