"""Feynman's laws: judges an equation for one law of physics on measurements that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.feynman import Law
from trace_bench.suites.llm4ad.science import bound, draw, normalised, remark, score, worst  # noqa: F401
from trace_bench.suites.llm4ad.srsd import LARGEST, laws
from trace_bench.worker.problem import ProblemError

MARGIN = 0.15
"""Of each end of a variable's range: what training leaves out."""


def instance(rng: np.random.Generator, *, set: str, test_id: int, n_points: int, noise: float) -> dict[str, Any]:
    """Measurements of law number `test_id` of a set."""
    law = law_of(set, test_id)
    near, inside, outside = (
        drawn(rng, law, *part) for part in ((n_points, False), (n_points // 2, False), (n_points // 2, True))
    )
    return science.sampled(rng, lambda inputs: law.formula(*inputs), near, inside, outside, noise)


def law_of(name: str, test_id: int) -> Law:
    """Law number `test_id` of a set.

    Raises:
        ProblemError: the set has fewer.
    """
    there = laws(name)
    if test_id > len(there):
        raise ProblemError(f"test_id is {test_id}, and the set {name} has {len(there)} laws; give 1 .. {len(there)}")
    return there[test_id - 1]


def drawn(rng: np.random.Generator, law: Law, count: int, beyond: bool) -> np.ndarray:
    """Inputs of `law` within the middle of all ranges, or of which at least one is beyond; again where it is no number,
    or one that squares would not fit a float of."""
    found: list[np.ndarray] = []
    while sum(part.shape[1] for part in found) < count:
        size = len(law.variables)
        shares = science.boxed(rng, [(MARGIN, 1 - MARGIN)] * size, [(0, 1)] * size, count)[int(beyond)]
        inputs = np.array([v.at(row, rng) for v, row in zip(law.variables, shares, strict=True)])
        with np.errstate(all="ignore"):
            found.append(inputs[:, np.abs(law.formula(*inputs)) < LARGEST])
    return np.concatenate(found, axis=1)[:, :count]


def described(*, set: str, test_id: int, n_points: int, noise: float) -> str:
    """The variables of the law, and where they are no plain ranges, what is special about them."""
    law = law_of(set, test_id)
    rows = ", ".join(f"x[{i}] is {v.name} ({v.described()})" for i, v in enumerate(law.variables))
    units = (
        ""
        if set == "ai_feynman"
        else " Units are powers of ten of the SI units, and physical constants are part of the law."
    )
    return f"The law gives {law.output} as a function of {len(law.variables)} variables: {rows}.{units}"


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.matrix(program, inputs, params), instance)
