import numpy as np

LEVEL = 5
GRID = {1: 0, 2: 0, 3: 35, 4: 10, 5: 1}[LEVEL]
"""Steps between the times of a switch of direction that are tried; 0: nothing is planned."""
MOST = 140
plan: list[int] = []


def choose_action(position: float, velocity: float) -> int:
    """Push the way the car rolls (the pumping rule for this problem of Moore, 1990); at level 1, to the left only when
    it rolls fast. From level 3 on, the first call simulates plans that push right, left and right again, and the
    fastest is followed."""
    if GRID and not plan:
        plan.extend(fastest(position, velocity))
    if len(plan) > 1:
        return plan.pop(0)
    back = -0.01 if LEVEL == 1 else 0.0
    return 2 if velocity >= 0 else 0 if velocity < back else 1


def fastest(position: float, velocity: float) -> list[int]:
    """The actions of the best plan."""
    first, second = (times.ravel() for times in np.meshgrid(np.arange(0, 60, GRID), np.arange(0, 100, GRID)))
    x, v, arrived = np.full(len(first), position), np.full(len(first), velocity), np.full(len(first), 2 * MOST)
    for step in range(MOST):
        push = np.where((step >= first) & (step < second), -1, 1)
        v = np.clip(v + 0.001 * push - 0.0025 * np.cos(3 * x), -0.07, 0.07)
        x = np.clip(x + v, -1.2, 0.6)
        v[(x == -1.2) & (v < 0)] = 0
        arrived[(x >= 0.5) & (arrived > MOST)] = step + 1
    best = int(arrived.argmin())
    return [0 if first[best] <= step < second[best] else 2 for step in range(MOST)]
