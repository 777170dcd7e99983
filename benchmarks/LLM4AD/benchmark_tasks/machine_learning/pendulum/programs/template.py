import math


def choose_action(x: float, y: float, angular_velocity: float) -> float:
    """A spring and a damper towards upright, without a swing: the motor is too weak for that from below."""
    return max(-2.0, min(2.0, -10 * math.atan2(y, x) - 2 * angular_velocity))
