"""Feynman's laws: judges an equation for one law of physics on measurements that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.feynman import LAWS
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401

MARGIN = 0.15
"""Of each end of a variable's range: what training leaves out."""


def instance(rng: np.random.Generator, *, test_id: int, n_points: int, noise: float) -> dict[str, Any]:
    """Measurements of law number `test_id`."""
    law = LAWS[test_id - 1]
    outer = [(v.low, v.high) for v in law.variables]
    inner = [(low + MARGIN * (high - low), high - MARGIN * (high - low)) for low, high in outer]
    near, _ = science.boxed(rng, inner, outer, n_points)
    inside, outside = science.boxed(rng, inner, outer, n_points // 2)
    return science.sampled(rng, lambda inputs: law.formula(*inputs), near, inside, outside, noise)


def described(*, test_id: int, n_points: int, noise: float) -> str:
    """The variables of the law."""
    law = LAWS[test_id - 1]
    rows = ", ".join(f"x[{i}] is {v.name} ({v.low:g} .. {v.high:g})" for i, v in enumerate(law.variables))
    return f"The law gives {law.output} as a function of {len(law.variables)} variables: {rows}."


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.matrix(program, inputs, params), instance)
