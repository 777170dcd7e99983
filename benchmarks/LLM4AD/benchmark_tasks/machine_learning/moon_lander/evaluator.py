"""Moon lander: plays a rule step by step; the sum of rewards counts, more is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import control
from trace_bench.suites.llm4ad.control import LANDER, Episode

LEAST = -500.0
REST, LEGS = 100.0, 20.0
GUST = 0.0008
"""What a wind of strength 1 changes the horizontal velocity by in a step, at most."""


def instance(rng: np.random.Generator, *, max_steps: int, wind: float) -> dict[str, Any]:
    """Ground, start, wind and the scatter of the engines, all by one seed."""
    return {"seed": int(rng.integers(2**31)), "max_steps": max_steps, "wind": wind}


def described(*, max_steps: int, wind: float) -> str:
    """The wind, if there is one."""
    if wind == 0:
        return ""
    return (
        f"There is a wind of strength {wind:g}: a sideways force, and a small torque, that change slowly over time and "
        f"act while no leg touches the ground. The force changes velocity_x by at most {GUST * wind:.4f} in a step."
    )


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Episode:
    return control.play(program, LANDER, **instance)


def score(instance: dict[str, Any], episode: Episode) -> float:
    return max(LEAST, sum(episode.rewards))


def worst(instance: dict[str, Any]) -> float:
    return LEAST


def bound(instance: dict[str, Any]) -> float:
    """Rewards are the growth of s, less fuel, and the last may be that for rest; at its best, s is both legs'."""
    start = control.play(_nothing, LANDER, **(instance | {"max_steps": 0}))
    return REST + LEGS - standing(start.observations[0]) + 1e-3  # an observation is rounded to 32 bits


def remark(instance: dict[str, Any], episode: Episode) -> str:
    x, y, vx, vy, angle, _, left, right = episode.observations[-1]
    end = f"neither crashed nor came to rest in {episode.steps} steps"
    if episode.ended:
        what = "came to rest" if episode.rewards[-1] > 0 else "was lost at the side" if abs(x) >= 1 else "crashed"
        end = f"{what} in step {episode.steps}"
    burns = episode.actions.count(2)
    return (
        f"The lander {end}: at x {x:.3f}, y {y:.3f}, velocity ({vx:.2f}, {vy:.2f}), angle "
        f"{angle:.2f}, {int(left + right)} legs on the ground; the main engine burned {burns} steps; "
        f"{control.used(episode)}."
    )


def draw(instance: dict[str, Any], episode: Episode) -> Drawing:
    return control.flight(episode)


def standing(observation: list[float]) -> float:
    """The s of the statement."""
    x, y, vx, vy, angle, _, left, right = observation
    return -100 * (math.hypot(x, y) + math.hypot(vx, vy) + abs(angle)) + 10 * (left + right)


def _nothing(*_: float) -> int:
    return 0
