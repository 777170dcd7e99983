"""Two floats to choose, and two losses that pull them apart: the six-hump camel function, and the squared norm."""

from __future__ import annotations

from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.task_folder import number, scoring
from trace_bench.worker.problem import BuildContext, Ops, Parameter, Problem, ProblemError, examples

BOUNDS = {"x1": (-3.0, 3.0), "x2": (-2.0, 2.0)}
ALTERNATIVES = {"x1": (0.0, 0.09, 0.06), "x2": (0.0, -0.71, -0.62)}


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    start = context.eval_kwargs["start"]
    if len(start) != 2:
        raise ProblemError(f"eval_kwargs.start: {start!r}; give two numbers, x1 and x2")
    values = dict(zip(BOUNDS, (number(value, "eval_kwargs.start") for value in start), strict=True))
    for name, (low, high) in BOUNDS.items():
        if not low <= values[name] <= high:
            raise ProblemError(f"eval_kwargs.start: {name} is {values[name]:g}; give a number from {low:g} to {high:g}")
    return Problem(
        parameters=tuple(
            Parameter(
                name=name,
                value=values[name],
                kind="float",
                description=f"the coordinate {name}",
                bounds=bounds,
                alternatives=ALTERNATIVES[name],
            )
            for name, bounds in BOUNDS.items()
        ),
        guide=two_losses,
        agent=agent,
        train=examples(["train-0"]),
        validate=examples(["validate-0"]),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def agent(ops: Ops, query: Any) -> Any:
    return ops.apply(pair, ops.param("x1"), ops.param("x2"))


def pair(x1: Any, x2: Any) -> list[Any]:
    """The point (x1, x2) as a list of two numbers."""
    return [x1, x2]


def two_losses(query: Any, response: Any, reference: Any) -> tuple[float, str, dict[str, float]]:
    """The sum of both losses, lower is better, and each of them as a metric.

    Raises:
        CandidateError: a coordinate is no number within its bounds.
    """
    x1, x2 = (
        checks.real(value, name, low=low, high=high)
        for value, (name, (low, high)) in zip(response, BOUNDS.items(), strict=True)
    )
    base, reg = camel(x1, x2), x1 * x1 + x2 * x2
    return base + reg, f"At ({x1:g}, {x2:g}) base_loss is {base:.6g} and reg_loss {reg:.6g}.", {
        "base_loss": base,
        "reg_loss": reg,
    }  # fmt: skip


def camel(x1: float, x2: float) -> float:
    """The six-hump camel function; least, -1.0316…, at (0.0898…, -0.7126…) and the point opposite."""
    a, b = x1 * x1, x2 * x2
    return (4.0 - 2.1 * a + a * a / 3.0) * a + x1 * x2 + (-4.0 + 4.0 * b) * b
