"""Mountain car: plays a rule step by step; fewer steps to the flag are better."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import control
from trace_bench.suites.llm4ad.control import Episode

GOAL, LEFT, MIDDLE, TOP_SPEED = 0.5, -1.2, -0.5, 0.07


def instance(rng: np.random.Generator, *, max_steps: int, spread: float) -> dict[str, Any]:
    """A start at rest within `spread` of the middle of the valley."""
    return {"start": [float(rng.uniform(MIDDLE - spread, MIDDLE + spread)), 0.0], "max_steps": max_steps}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Episode:
    return control.play(program, "MountainCar-v0", max_steps=instance["max_steps"], start=instance["start"])


def score(instance: dict[str, Any], episode: Episode) -> float:
    """Steps to the flag, or more than there are by the part of the way that was missing."""
    missing = (GOAL - max(episode.observed(0))) / (GOAL - LEFT)
    return control.late(episode, instance["max_steps"], missing)


def worst(instance: dict[str, Any]) -> float:
    """The car never leaves the left end."""
    return 2.0 * instance["max_steps"]


def bound(instance: dict[str, Any]) -> float:
    """The whole way at top speed. Whoever does not get there takes more steps than there are."""
    return float(min(instance["max_steps"], math.ceil((GOAL - instance["start"][0]) / TOP_SPEED)))


def remark(instance: dict[str, Any], episode: Episode) -> str:
    positions, velocities = episode.observed(0), episode.observed(1)
    end = f"The flag was reached in step {episode.steps}" if episode.ended else "The flag was never reached"
    turns = sum(1 for a, b in pairwise(velocities) if a * b < 0)
    return (
        f"{end}; positions {min(positions):.3f} .. {max(positions):.3f} from a start at {positions[0]:.3f}, top speed "
        f"{max(map(abs, velocities)):.4f}, {turns} turns; {control.used(episode)}."
    )


def draw(instance: dict[str, Any], episode: Episode) -> Drawing:
    return control.over_time([("position", episode.observed(0))], level=GOAL)
