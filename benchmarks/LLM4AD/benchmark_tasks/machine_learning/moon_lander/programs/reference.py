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
    """Two proportional-derivative rules, as in the heuristic of the environment's author (Klimov, 2016), with gains of
    our own: lean against the drift from the pad, and hold a height that shrinks with the distance from it."""
    lean = max(-0.4, min(0.4, 0.5 * x + velocity_x))
    turn = 0.5 * (lean - angle) - angular_velocity
    lift = 0.5 * (0.55 * abs(x) - y) - 0.6 * velocity_y
    if left_contact or right_contact:
        turn, lift = 0.0, -0.6 * velocity_y
    if lift > abs(turn) and lift > 0.05:
        return 2
    if turn < -0.05:
        return 3
    if turn > 0.05:
        return 1
    return 0
