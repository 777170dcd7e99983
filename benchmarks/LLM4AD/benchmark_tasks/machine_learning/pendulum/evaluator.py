"""Pendulum: plays a rule for the whole episode; less cost of being tilted, moving and pushed is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import control
from trace_bench.suites.llm4ad.control import Episode

STEP, TOP_SPEED, MOST_TORQUE = 0.05, 8.0, 2.0
GRAVITY, LEVER = 15.0, 3.0
"""Angular acceleration by gravity when level, and by a torque of 1."""


def instance(rng: np.random.Generator, *, max_steps: int, speed: float) -> dict[str, Any]:
    """Any angle, and an angular velocity of at most `speed`."""
    return {"start": [float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(-speed, speed))], "max_steps": max_steps}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Episode:
    return control.play(program, "Pendulum-v1", max_steps=instance["max_steps"], start=instance["start"])


def score(instance: dict[str, Any], episode: Episode) -> float:
    """The sum of all steps' costs."""
    return -sum(episode.rewards)


def worst(instance: dict[str, Any]) -> float:
    """Each step costs the most that there is."""
    most = math.pi**2 + 0.1 * TOP_SPEED**2 + 0.001 * MOST_TORQUE**2
    return most * instance["max_steps"] * (1 + 1e-12)


def bound(instance: dict[str, Any]) -> float:
    """The way to upright if gravity and motor always helped: the tilts on it cost at least this."""
    tilt, speed, total = abs(instance["start"][0]), abs(instance["start"][1]), 0.0
    for _ in range(instance["max_steps"]):
        total += tilt**2
        speed = min(TOP_SPEED, speed + STEP * (GRAVITY + LEVER * MOST_TORQUE))
        tilt = max(0.0, tilt - STEP * speed)
    return total * (1 - 1e-12)


def remark(instance: dict[str, Any], episode: Episode) -> str:
    tilts = [abs(math.atan2(y, x)) for x, y, _ in episode.observations]
    upright = [tilt < 0.2 for tilt in tilts]
    since = len(upright) - next((i for i, held in enumerate(reversed(upright)) if not held), len(upright))
    by_tilt = sum(tilt**2 for tilt in tilts[:-1])
    by_speed = 0.1 * sum(v**2 for v in episode.observed(2)[:-1])
    stayed = f"within 0.2 rad of upright from step {since} on" if upright[-1] else "not upright at the end"
    return (
        f"The pendulum was {stayed}, tilted {tilts[0]:.2f} at the start and {tilts[-1]:.2f} at the end; tilt "
        f"cost {by_tilt:.1f}, speed {by_speed:.1f}, torque {0.001 * sum(u * u for u in episode.actions):.2f}; "
        f"{control.used(episode)}."
    )


def draw(instance: dict[str, Any], episode: Episode) -> Drawing:
    angles = [math.atan2(y, x) for x, y, _ in episode.observations]
    return control.over_time([("angle from upright", angles), ("torque", episode.actions)], level=0.0)
