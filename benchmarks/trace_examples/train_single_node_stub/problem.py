"""One float to choose, with a training example and nothing else: the score is -|x - 3|."""

from __future__ import annotations

from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Example, Parameter, Problem

TARGET = 3.0
BOUNDS = (0.0, 6.0)


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    return Problem(
        parameters=(
            Parameter(
                name="x",
                value=1.0,
                kind="float",
                description="the number to choose",
                bounds=BOUNDS,
                alternatives=(0.0, 2.0, 3.0),
            ),
        ),
        guide=distance_to_target,
        train=(Example("train-0", reference=TARGET),),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def distance_to_target(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Minus the distance of `response` to `reference`; 0 is best.

    Raises:
        CandidateError: the response is no number within the bounds.
    """
    x = checks.real(response, "x", low=BOUNDS[0], high=BOUNDS[1])
    if x == reference:
        return 0.0, "x is exact."
    return -abs(x - reference), f"x = {x!r} is too {'small' if x < reference else 'large'}."
