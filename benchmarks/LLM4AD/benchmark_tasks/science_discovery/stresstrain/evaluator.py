"""Stress and strain: judges a constitutive equation of an aluminium alloy on states that it was not fitted to.

Law: elastic up to the yield stress, then the hardening of Johnson and Cook (1983), at a fixed low strain rate; both
soften with the temperature: s = min(E e, A + B max(0, e - A / E)^n) (1 - ((T - 20) / (Tm - 20))^m), T in degrees
Celsius. Published values for 6061-T6 are E 69 000 MPa, A 324 MPa, B 114 MPa, n 0.42, m 1.34, Tm 652.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401

INNER = ((0.0, 0.06), (20.0, 200.0))
OUTER = ((0.0, 0.1), (20.0, 300.0))
ELASTIC = 0.012
CONSTANTS = ((66e3, 72e3), (250.0, 340.0), (100.0, 400.0), (0.35, 0.6), (1.0, 1.5), (620.0, 660.0))
"""Of E, A, B, n, m, Tm: the ranges that they are drawn from."""


def law(inputs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Stresses at strains and temperatures, the rows of `inputs`."""
    strain, temp = inputs
    e, a, b, n, m, melting = constants
    hardened = a + b * np.maximum(strain - a / e, 0.0) ** n
    return np.minimum(e * strain, hardened) * (1 - ((temp - 20) / (melting - 20)) ** m)


def instance(rng: np.random.Generator, *, n_points: int, noise: float) -> dict[str, Any]:
    """Measurements at random states, half of those for training and inside its range at small strains."""
    constants = np.array([rng.uniform(low, high) for low, high in CONSTANTS])
    near, _ = science.boxed(rng, INNER, OUTER, n_points)
    inside, outside = science.boxed(rng, INNER, OUTER, n_points // 2)
    for states in (near, inside):
        states[0, ::2] *= ELASTIC / INNER[0][1]
    return science.sampled(rng, lambda inputs: law(inputs, constants), near, inside, outside, noise)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(program, inputs, params), instance)
