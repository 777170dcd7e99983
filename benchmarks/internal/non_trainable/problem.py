"""A problem whose only parameter is fixed: a job of it must fail with ``no_trainable_parameters``."""

from __future__ import annotations

from typing import Any

from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Parameter, Problem, examples


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    return Problem(
        parameters=(Parameter(name="fixed", value=1.0, kind="float", trainable=False, bounds=(0.0, 1.0)),),
        guide=constant,
        train=examples(["train-0"]),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def constant(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """0 for any response: nothing can be improved."""
    return 0.0, "Nothing here can be changed."
