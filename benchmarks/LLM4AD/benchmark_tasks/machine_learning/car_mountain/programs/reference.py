def choose_action(position: float, velocity: float) -> int:
    """Push the way the car rolls: each push adds energy, until there is enough for the hill (the pumping rule for this
    problem of Moore, 1990)."""
    return 2 if velocity >= 0 else 0
