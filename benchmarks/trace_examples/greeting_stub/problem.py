"""One text to choose: 1 for an exact match with "Hello, Sam!", else 0."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Example, Parameter, Problem

QUERY = "Hello, I am Sam."
DUE = "Hello, Sam!"


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    return Problem(
        parameters=(
            Parameter(
                name="greeting",
                value="Hello, World!",
                kind="text",
                description="the answer to a person who says hello",
                alternatives=("Hello, Sam", "Hi Sam!", DUE),
            ),
        ),
        guide=exact_match,
        train=(Example("train-0", QUERY, DUE),),
        validate=(Example("validate-0", QUERY, DUE),),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def exact_match(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """1 if `response` is `reference`, else 0.

    Raises:
        CandidateError: the response is no text of at most 1000 characters.
    """
    answer = checks.text(response, "greeting", longest=1000)
    if answer == reference:
        return 1.0, "The greeting is right."
    right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(answer, reference, strict=False)))
    return 0.0, f"The greeting {answer[:80]!r} is wrong; its first {right} characters are right."
