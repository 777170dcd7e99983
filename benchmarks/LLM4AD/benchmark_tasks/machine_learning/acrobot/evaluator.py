"""Acrobot: plays a rule step by step; fewer steps until the free end is above the line are better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import control
from trace_bench.suites.llm4ad.control import Episode

LINE, LOWEST = 1.0, -2.0
TUNED = 75.0
"""Steps that a linear rule with tuned weights needs on average. No bound is known that is worth the name."""


def instance(rng: np.random.Generator, *, max_steps: int, spread: float) -> dict[str, Any]:
    """Angles and angular velocities close to hanging at rest."""
    return {"start": rng.uniform(-spread, spread, size=4).tolist(), "max_steps": max_steps}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Episode:
    return control.play(program, "Acrobot-v1", max_steps=instance["max_steps"], start=instance["start"])


def score(instance: dict[str, Any], episode: Episode) -> float:
    """Steps to the line, or more than there are by the part of the height that was missing."""
    missing = (LINE - max(heights(episode)[1:])) / (LINE - LOWEST)
    return control.late(episode, instance["max_steps"], missing)


def worst(instance: dict[str, Any]) -> float:
    """The arm just hangs."""
    return 2.0 * instance["max_steps"]


def target(instance: dict[str, Any]) -> float:
    return min(TUNED, float(instance["max_steps"]))


def remark(instance: dict[str, Any], episode: Episode) -> str:
    reached = heights(episode)
    end = f"The line was passed in step {episode.steps}" if episode.ended else "The line was never passed"
    fastest = [max(map(abs, episode.observed(i))) for i in (4, 5)]
    return (
        f"{end}; the free end's greatest height was {max(reached):.3f} (step {int(np.argmax(reached))}), the line "
        f"is at 1; top angular velocities {fastest[0]:.2f} and {fastest[1]:.2f} rad/s; {control.used(episode)}."
    )


def draw(instance: dict[str, Any], episode: Episode) -> Drawing:
    return control.over_time([("height of the free end", heights(episode))], level=LINE)


def heights(episode: Episode) -> list[float]:
    """Of the free end over the pivot, before each step and after the last."""
    return [-c1 - (c1 * c2 - s1 * s2) for c1, s1, c2, s2, *_ in episode.observations]
