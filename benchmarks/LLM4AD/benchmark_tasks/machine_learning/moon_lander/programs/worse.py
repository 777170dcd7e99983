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
    """Brake when falling, whichever way the lander points."""
    return 2 if velocity_y < -0.3 else 0
