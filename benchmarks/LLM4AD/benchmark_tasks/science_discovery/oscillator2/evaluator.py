"""Oscillator 2: judges an equation for the acceleration of a driven oscillator on motions that it was not fitted to.

Law (LLM-SR, Shojaee et al., arXiv:2404.18400, oscillation 2), with t time, x position and v velocity:
dv/dt = F sin(w t) - a v^3 - b x v - d x exp(g x); nominal F 0.3, a 0.5, b 1.0, d 5.0, g 0.5, w 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.science import draw, normalised, remark, score, target, worst  # noqa: F401

NOMINAL = (0.3, 0.5, 1.0, 5.0, 0.5, 1.0)
TRAIN, HELD = 300, 150


def law(inputs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Accelerations at times, positions and velocities, the rows of `inputs`."""
    t, x, v = inputs
    f, a, b, d, g, w = constants
    return f * np.sin(w * t) - a * v**3 - b * x * v - d * x * np.exp(g * x)


def motions(start: np.ndarray, times: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Points (t, x, v) of motions from `start`, shape (2, motions): shape (3, points), by time."""

    def rate(time: float, state: np.ndarray) -> np.ndarray:
        return np.array([state[1], law(np.array([np.full(state.shape[1], time), *state]), constants)])

    states = science.integrated(rate, start, times)
    clock = np.broadcast_to(times[:, None], (len(times), start.shape[1]))
    return np.array([clock, states[:, 0], states[:, 1]]).reshape(3, -1)


def instance(rng: np.random.Generator, *, noise: float) -> dict[str, Any]:
    """Points of simulated motions."""
    constants = np.array(NOMINAL) * rng.uniform(0.8, 1.2, 6)
    near = motions(rng.uniform(-1, 1, (2, 4)), np.linspace(0, 40, 801), constants)
    early, late = near[:, near[0] <= 20], near[:, near[0] > 20]
    angle, radius = rng.uniform(0, 2 * np.pi, 4), rng.uniform(1.2, 2, 4)
    far = motions(radius * np.array([np.cos(angle), np.sin(angle)]), np.linspace(0, 4, 81), constants)
    chosen = rng.permutation(early.shape[1])[: TRAIN + HELD]
    later = rng.permutation(late.shape[1])[: HELD // 2]
    wider = rng.permutation(far.shape[1])[: HELD // 2]
    return science.sampled(
        rng,
        lambda inputs: law(inputs, constants),
        early[:, chosen[:TRAIN]],
        early[:, chosen[TRAIN:]],
        np.concatenate([late[:, later], far[:, wider]], axis=1),
        noise,
    )


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(program, inputs, params), instance)
