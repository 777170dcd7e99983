def choose_action(position: float, velocity: float) -> float:
    """Force in proportion to the velocity, the cheapest way to add energy to a swing (energy pumping, as in Astrom and
    Furuta, 2000), and a touch more so that a resting car gets going."""
    force = 8 * velocity + (0.05 if velocity >= 0 else -0.05)
    return max(-1.0, min(1.0, force))
