"""One integer to choose: a hidden number set by the job's seed; feedback is "larger" or "smaller"."""

from __future__ import annotations

import random
from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.splits import split_seed
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Example, Parameter, Problem

BOUNDS = (0, 100)
START = 50


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    hidden = hidden_number(context)
    return Problem(
        parameters=(
            Parameter(
                name="guess",
                value=START,
                kind="int",
                description="the number to guess",
                bounds=BOUNDS,
                alternatives=(0, 25, 75, 100),
            ),
        ),
        guide=larger_or_smaller,
        train=(Example("train-0", "Guess my number.", hidden),),
        validate=(Example("validate-0", "Guess my number.", hidden),),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def hidden_number(context: BuildContext) -> int:
    """A number in bounds other than the start, so that every job starts unsolved; for both splits."""
    return random.Random(split_seed(context, "train")).choice([k for k in range(BOUNDS[1] + 1) if k != START])


def larger_or_smaller(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Minus the distance of `response` to `reference` over 100; 0 is best.

    Raises:
        CandidateError: the response is no integer within the bounds.
    """
    guess = checks.integer(response, "guess", low=BOUNDS[0], high=BOUNDS[1])
    if guess == reference:
        return 0.0, "That is my number."
    return -abs(guess - reference) / 100, f"My number is {'larger' if guess < reference else 'smaller'} than {guess}."
