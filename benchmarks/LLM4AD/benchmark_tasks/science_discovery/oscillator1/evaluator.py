"""Oscillator 1: judges an equation for the acceleration of a damped oscillator on motions that it was not fitted to.

Law (LLM-SR, Shojaee et al., arXiv:2404.18400, oscillation 1), with x position and v velocity:
dv/dt = F sin(w x) - a v^3 - b x^3 - g x v - x cos(x); nominal F 0.8, a 0.5, b 0.2, g 0.5, w 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401

NOMINAL = (0.8, 0.5, 0.2, 0.5, 1.0)


def law(inputs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Accelerations at positions and velocities, the rows of `inputs`."""
    x, v = inputs
    f, a, b, g, w = constants
    return f * np.sin(w * x) - a * v**3 - b * x**3 - g * x * v - x * np.cos(x)


def instance(rng: np.random.Generator, *, n_points: int, noise: float) -> dict[str, Any]:
    """Points of simulated motions, one of each."""
    constants = np.array(NOMINAL) * rng.uniform(0.8, 1.2, 5)

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        return np.array([state[1], law(state, constants)])

    near, _ = science.moments(rng, rate, rng.uniform(-1, 1, (2, n_points + n_points // 2)), 0, 10)
    far, _ = science.moments(rng, rate, science.ring(rng, 1.2, 2, n_points // 2), 0, 4)
    return science.sampled(
        rng, lambda inputs: law(inputs, constants), near[:, :n_points], near[:, n_points:], far, noise
    )


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(program, inputs, params), instance)
