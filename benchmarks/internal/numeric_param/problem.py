"""One float to choose: the score is -|guess - 3|."""

from __future__ import annotations

from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Parameter, Problem, examples

TARGET = 3.0
BOUNDS = (-10.0, 10.0)


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    return Problem(
        parameters=(
            Parameter(
                name="guess",
                value=float(context.eval_kwargs["start"]),
                kind="float",
                description="the number to choose",
                bounds=BOUNDS,
                alternatives=(-10.0, 2.5, 3.0),
            ),
        ),
        guide=distance_to_target,
        train=examples(["train-0"]),
        validate=examples(["validate-0"]),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def distance_to_target(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Minus the distance of `response` to the target; 0 is best.

    Raises:
        CandidateError: the response is no number within the bounds.
    """
    guess = checks.real(response, "guess", low=BOUNDS[0], high=BOUNDS[1])
    distance = abs(guess - TARGET)
    if distance == 0:
        return 0.0, "The guess is exact."
    return (
        -distance,
        f"The guess {guess!r} is too {'small' if guess < TARGET else 'large'} by {distance:.6g}.",
    )
