from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from trace_bench.errors import TaskError
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import Parameter, Problem, ProblemError, examples
from trace_bench.worker.training import StopTraining


def _problem(guide: Any) -> Problem:
    return Problem(
        parameters=(Parameter("x", 0.0, "float"),),
        guide=guide,
        train=examples(["only"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-1.0,
    )


def test_what_a_guide_raises_is_the_tasks_fault_with_file_and_line() -> None:
    def guide(query: Any, response: Any, reference: Any) -> Any:
        raise KeyError("broken")

    problem = _problem(guide)
    with pytest.raises(TaskError, match=r"the guide raised KeyError: 'broken' \(test_evaluate.py, line \d+; example"):
        evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]


def test_a_stop_inside_a_guide_stays_a_stop() -> None:
    def guide(query: Any, response: Any, reference: Any) -> Any:
        raise StopTraining("timeout")

    problem = _problem(guide)
    with pytest.raises(StopTraining):
        evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("response", "text"),
    [("a\nb", "a\nb"), (3, "3"), (0.5, "0.5"), ("x" * 2000, "x" * 2000), ("x" * 2001, None), (10**5000, None),
     (["a"], None), (None, None), (np.zeros(1), None)],
    ids=[*"abcdefghi"],
)  # fmt: skip
def test_a_short_text_or_number_that_an_agent_answers_is_part_of_the_rollout(response: Any, text: str | None) -> None:
    plain = _problem(lambda query, response, reference: (1.0, "fine"))
    problem = replace(plain, agent=lambda ops, query: response)
    assert evaluate_example(problem, {}, problem.train[0], None).response == text  # type: ignore[arg-type]
    assert evaluate_example(plain, {"x": 1.0}, plain.train[0], None).response is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "score", [1, 2.5, np.float64(0.5), np.float32(0.5), np.int64(3), np.uint8(3), Fraction(1, 2)], ids=repr
)
def test_real_numbers_of_any_library_are_scores(score: Any) -> None:
    problem = _problem(lambda query, response, reference: (score, "fine"))
    rollout = evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]
    assert (rollout.score, rollout.failed, type(rollout.score)) == (float(score), False, float)


@pytest.mark.parametrize(
    ("score", "words"),
    [(math.nan, "nan"), (-math.inf, "-inf"), (10**400, "too large"), (True, "of type bool"), (np.bool_(True), "bool"),
     (np.float32("inf"), "inf"), ("1", "of type str"), (None, "NoneType"), (1j, "complex"), (np.zeros(1), "ndarray")],
    ids=str,
)  # fmt: skip
def test_a_score_that_is_no_finite_number_is_the_candidates_failure(score: Any, words: str) -> None:
    warnings: list[str] = []
    problem = replace(_problem(lambda query, response, reference: (score, "fine")), warn=warnings.append)
    rollout = evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]
    assert (rollout.score, rollout.failed) == (-1.0, True)
    assert rollout.feedback.startswith("the score of this answer is") and words in rollout.feedback
    assert len(warnings) == 1 and "<lambda>" in warnings[0] and "'only'" in warnings[0]


@pytest.mark.parametrize("outcome", [1.0, "ab", (1.0,), (1.0, "", 2), None, {1.0: "", 2.0: ""}])
def test_a_guide_that_returns_no_pair_is_the_tasks_fault(outcome: Any) -> None:
    problem = _problem(lambda query, response, reference: outcome)
    with pytest.raises(ProblemError, match=r"where \(score, feedback\) is expected"):
        evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]


def test_feedback_keeps_its_lines_and_shows_what_would_move_a_cursor() -> None:
    problem = _problem(lambda query, response, reference: (1.0, "one\ntwo\x1b[2J\r"))
    rollout = evaluate_example(problem, {}, problem.train[0], None)  # type: ignore[arg-type]
    assert rollout.feedback == "one\ntwo\\x1b[2J\\r"
