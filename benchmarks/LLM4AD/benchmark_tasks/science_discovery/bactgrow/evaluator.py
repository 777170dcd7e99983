"""Bacterial growth: judges an equation for the growth rate of E. coli on conditions that it was not fitted to.

Law (LLM-SR, Shojaee et al., arXiv:2404.18400, E. coli growth; Monod 1949 for the substrate), with density B, substrate
S, temperature T and acidity P: dB/dt = m B * S / (K + S) * tanh(k (T - T0)) / (1 + c (T - Td)^4) * exp(-|P - Popt|) *
sin(pi (P - Pmin) / (Pmax - Pmin))^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401

INNER = ((0.05, 0.6), (0.05, 2.0), (15.0, 38.0), (5.5, 8.0))
OUTER = ((0.05, 0.8), (0.05, 3.0), (12.0, 40.0), (5.2, 8.3))
RATES = ((0.8, 1.2), (0.3, 0.8))
HEAT = ((0.05, 0.1), (3.0, 7.0), (0.5e-4, 2e-4), (28.0, 33.0))
ACIDITY = ((6.5, 7.2), (4.0, 4.6), (8.8, 9.4))
CONSTANTS = (*RATES, *HEAT, *ACIDITY)
"""Of m, K, k, T0, c, Td, Popt, Pmin, Pmax: the ranges that they are drawn from."""


def law(inputs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Growth rates at densities, substrates, temperatures and acidities, the rows of `inputs`."""
    b, s, t, p = inputs
    m, half, k, start, c, decay, best, low, high = constants
    warm = np.tanh(k * (t - start)) / (1 + c * (t - decay) ** 4)
    acid = np.exp(-np.abs(p - best)) * np.sin(np.pi * (p - low) / (high - low)) ** 2
    return m * b * s / (half + s) * warm * acid


def instance(rng: np.random.Generator, *, n_points: int, noise: float) -> dict[str, Any]:
    """Measurements at random conditions."""
    constants = np.array([rng.uniform(low, high) for low, high in CONSTANTS])
    near, _ = science.boxed(rng, INNER, OUTER, n_points)
    inside, outside = science.boxed(rng, INNER, OUTER, n_points // 2)
    return science.sampled(rng, lambda inputs: law(inputs, constants), near, inside, outside, noise)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(program, inputs, params), instance)
