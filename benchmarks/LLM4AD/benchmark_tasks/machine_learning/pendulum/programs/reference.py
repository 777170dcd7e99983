import math


def choose_action(x: float, y: float, angular_velocity: float) -> float:
    """Pump energy until there is as much as upright at rest has (Astrom and Furuta, 2000), then catch by a spring and a
    damper."""
    if x > 0.7 and abs(angular_velocity) < 4:
        torque = -12 * math.atan2(y, x) - 2.5 * angular_velocity
    else:
        energy = angular_velocity**2 / 6 + 5 * x
        torque = (5.2 - energy) * (angular_velocity or 0.1)
    return max(-2.0, min(2.0, torque))
