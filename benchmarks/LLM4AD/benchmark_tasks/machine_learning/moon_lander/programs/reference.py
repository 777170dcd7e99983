LEVEL = 5
LEAN, AIM, DRIFT, TURN, HOVER, SINK = {
    1: (0.0, 0.0, 0.0, 0.5, 0.0, 0.6),
    2: (0.4, 0.0, 1.0, 0.5, 0.0, 0.6),
    3: (0.4, 0.5, 1.0, 0.5, 0.0, 0.6),
    4: (0.4, 0.5, 1.0, 0.5, 0.3, 0.6),
    5: (0.4, 0.5, 1.0, 0.5, 0.55, 0.6),
}[LEVEL]


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
    our own: lean against the drift from the pad, and hold a height that shrinks with the distance from it. Level 1 only
    keeps upright and sinks slowly, level 2 leans against the drift, level 3 aims at the pad."""
    lean = max(-LEAN, min(LEAN, AIM * x + DRIFT * velocity_x))
    turn = TURN * (lean - angle) - angular_velocity
    lift = 0.5 * (HOVER * abs(x) - y) - SINK * velocity_y
    if left_contact or right_contact:
        turn, lift = 0.0, -SINK * velocity_y
    if lift > abs(turn) and lift > 0.05:
        return 2
    if turn < -0.05:
        return 3
    if turn > 0.05:
        return 1
    return 0
