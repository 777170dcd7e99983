import numpy as np

LEVEL = 5
GAIN = {1: 20.0, 2: 8.0, 3: 6.0, 4: 6.0, 5: 6.0}[LEVEL]
TRIED = {1: 0, 2: 0, 3: 0, 4: 6, 5: 50}[LEVEL]
"""Gains and thrusts that the first call simulates, each with each."""
STEPS = 500
rule: list[float] = []


def choose_action(position: float, velocity: float) -> float:
    """Force in proportion to the velocity, the cheapest way to add energy to a swing (energy pumping, as in Astrom and
    Furuta, 2000), and a touch more so that a resting car gets going. The smaller the gain, the less effort and the more
    steps; from level 4 on, the first call simulates which rule gets there at the least effort."""
    if not rule:
        rule.extend(cheapest(position, velocity) if TRIED else (GAIN, 0.05))
    gain, thrust = rule
    return max(-1.0, min(1.0, gain * velocity + (thrust if velocity >= 0 else -thrust)))


def cheapest(position: float, velocity: float) -> tuple[float, float]:
    """The gain and the thrust that reach the flag within `STEPS` at the least effort."""
    gains, thrusts = (a.ravel() for a in np.meshgrid(np.linspace(2, 10, TRIED), np.linspace(0.01, 0.2, TRIED)))
    x, v, spent = np.full(len(gains), position), np.full(len(gains), velocity), np.zeros(len(gains))
    total = np.full(len(gains), np.inf)
    for _ in range(STEPS):
        force = np.clip(gains * v + np.where(v >= 0, thrusts, -thrusts), -1, 1)
        spent += force**2
        v = np.clip(v + 0.0015 * force - 0.0025 * np.cos(3 * x), -0.07, 0.07)
        x = np.clip(x + v, -1.2, 0.6)
        v[(x == -1.2) & (v < 0)] = 0
        there = (x >= 0.45) & np.isinf(total)
        total[there] = spent[there]
    best = int(total.argmin())
    return float(gains[best]), float(thrusts[best])
