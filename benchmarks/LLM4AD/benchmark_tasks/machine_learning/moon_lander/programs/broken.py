def choose_action(
    x: float,
    y: float,
    velocity_x: float,
    velocity_y: float,
    angle: float,
    angular_velocity: float,
    left_contact: float,
    right_contact: float,
) -> list[float]:
    """Throttles of the main and the side engines, as another version of the problem takes them."""
    return [1.0 if velocity_y < -0.3 else 0.0, angle]
