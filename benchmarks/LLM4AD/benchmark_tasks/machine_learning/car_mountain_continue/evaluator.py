"""Mountain car with a throttle: plays a rule step by step; reaching the flag with little effort is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import control
from trace_bench.suites.llm4ad.control import Episode

GOAL, LEFT, MIDDLE = 0.45, -1.2, -0.5
PRIZE, EFFORT = 100.0, 0.1


def instance(rng: np.random.Generator, *, max_steps: int, spread: float) -> dict[str, Any]:
    """A start at rest within `spread` of the middle of the valley."""
    return {"start": [float(rng.uniform(MIDDLE - spread, MIDDLE + spread)), 0.0], "max_steps": max_steps}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Episode:
    return control.play(program, "MountainCarContinuous-v0", max_steps=instance["max_steps"], start=instance["start"])


def score(instance: dict[str, Any], episode: Episode) -> float:
    """What the flag is worth, or what was missing costs, less the effort."""
    missing = min(1.0, max(0.0, (GOAL - max(episode.observed(0))) / (GOAL - LEFT)))
    return (PRIZE if episode.ended else -PRIZE * missing) - effort(episode)


def worst(instance: dict[str, Any]) -> float:
    """Full force in every step, and the car never leaves the left end."""
    return -PRIZE - EFFORT * instance["max_steps"]


def bound(instance: dict[str, Any]) -> float:
    return PRIZE


def remark(instance: dict[str, Any], episode: Episode) -> str:
    positions = episode.observed(0)
    end = f"The flag was reached in step {episode.steps}" if episode.ended else "The flag was never reached"
    return (
        f"{end}; positions {min(positions):.3f} .. {max(positions):.3f} from a start at {positions[0]:.3f}; "
        f"the effort cost {effort(episode):.3f}; {control.used(episode)}."
    )


def draw(instance: dict[str, Any], episode: Episode) -> Drawing:
    return control.over_time([("position", episode.observed(0)), ("force", episode.actions)], level=GOAL)


def effort(episode: Episode) -> float:
    return EFFORT * sum(force * force for force in episode.actions)
