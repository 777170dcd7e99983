"""Oscillator 2: judges an equation for the acceleration of a driven oscillator on motions that it was not fitted to.

Law (LLM-SR, Shojaee et al., arXiv:2404.18400, oscillation 2), with t time, x position and v velocity:
dv/dt = F sin(w t) - a v^3 - b x v - d x exp(g x); nominal F 0.3, a 0.5, b 1.0, d 5.0, g 0.5, w 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401

NOMINAL = (0.3, 0.5, 1.0, 5.0, 0.5, 1.0)


def law(inputs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Accelerations at times, positions and velocities, the rows of `inputs`."""
    t, x, v = inputs
    f, a, b, d, g, w = constants
    return f * np.sin(w * t) - a * v**3 - b * x * v - d * x * np.exp(g * x)


def instance(rng: np.random.Generator, *, n_points: int, noise: float) -> dict[str, Any]:
    """Points of simulated motions, one of each."""
    constants = np.array(NOMINAL) * rng.uniform(0.8, 1.2, 6)

    def rate(time: float, state: np.ndarray) -> np.ndarray:
        return np.array([state[1], law(np.array([np.full(state.shape[1], time), *state]), constants)])

    def points(starts: np.ndarray, begin: float, end: float) -> np.ndarray:
        states, times = science.moments(rng, rate, starts, begin, end)
        return np.array([times, *states])

    early = points(rng.uniform(-1, 1, (2, n_points + n_points // 2)), 0, 20)
    late = points(rng.uniform(-1, 1, (2, n_points // 4)), 20, 40)
    wider = points(science.ring(rng, 1.2, 2, n_points // 4), 0, 4)
    return science.sampled(
        rng,
        lambda inputs: law(inputs, constants),
        early[:, :n_points],
        early[:, n_points:],
        np.concatenate([late, wider], axis=1),
        noise,
    )


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(program, inputs, params), instance)
