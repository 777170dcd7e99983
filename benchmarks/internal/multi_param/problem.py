"""Two integers to choose: the score is -|a + b - 3|. The sum is part of the graph, not of the guide."""

from __future__ import annotations

from typing import Any

from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, CandidateError, Ops, Parameter, Problem, examples

TARGET = 3
BOUNDS = (-20, 20)


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    return Problem(
        parameters=tuple(
            Parameter(
                name=name,
                value=0,
                kind="int",
                description=f"the {which} of two integers whose sum is judged",
                bounds=BOUNDS,
                alternatives=(-20, 1, 2),
            )
            for name, which in (("a", "first"), ("b", "second"))
        ),
        guide=distance_to_target,
        agent=agent,
        train=examples(["train-0"]),
        validate=examples(["validate-0"]),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def agent(ops: Ops, query: Any) -> Any:
    return ops.apply(add, ops.param("a"), ops.param("b"))


def add(a: Any, b: Any) -> int | None:
    """Add two integers, each from -20 to 20. For anything else there is no sum, which the guide refuses."""
    low, high = BOUNDS
    if any(type(value) is not int or not low <= value <= high for value in (a, b)):
        return None
    return int(a + b)


def distance_to_target(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Minus the distance of the sum to 3; 0 is best.

    Raises:
        CandidateError: there is no sum.
    """
    if response is None:
        raise CandidateError("output", f"a and b must be integers from {BOUNDS[0]} to {BOUNDS[1]}")
    distance = abs(response - TARGET)
    if distance == 0:
        return 0.0, "a + b is 3."
    return -float(distance), f"a + b is {response}, too {'small' if response < TARGET else 'large'} by {distance}."
