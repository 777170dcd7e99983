"""Demos as a part of a text, and the tasks that they make sense for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trace_bench.errors import TrainerError
from trace_bench.trainers.adapters.demos import Demo, parameter_for, write
from trace_bench.worker.problem import Parameter, Problem, examples


def problem(*kinds: str) -> Problem:
    """A task whose agent answers queries, with one parameter of each kind: ``p0``, ``p1`` …"""
    values: dict[str, Any] = {"text": "Answer.", "float": 1.0}
    return Problem(
        parameters=tuple(Parameter(f"p{i}", values[kind], kind) for i, kind in enumerate(kinds)),  # type: ignore[arg-type]
        guide=lambda query, response, reference: (1.0, ""),
        agent=lambda ops, query: query,
        train=examples(["a"]),
        validate=examples(["b"]),
        objective="Answer.",
        direction="maximize",
        failure_score=0.0,
        score_range=(0.0, 1.0),
    )


def test_demos_stand_behind_the_instruction_in_their_order() -> None:
    assert write("Add.", [Demo("1+1", "2"), Demo("two\nlines", "")]) == (
        "Add.\n\nExamples:\n\n--- Example 1 ---\nQuery: 1+1\nResponse: 2\n\n"
        "--- Example 2 ---\nQuery: two\nlines\nResponse: "
    )
    assert write("", [Demo("1+1", "2")]) == "Examples:\n\n--- Example 1 ---\nQuery: 1+1\nResponse: 2"
    assert write("Add. ", []) == "Add. "


def test_demos_are_added_to_the_only_text_or_to_the_one_that_is_named() -> None:
    assert parameter_for(problem("text"), "") == "p0"
    assert parameter_for(problem("float", "text"), "") == "p1"
    assert parameter_for(problem("text", "text"), "p1") == "p1"


REFUSED: dict[str, tuple[Problem, str, str]] = {
    "numbers": (problem("float"), "", "demos are added to a trainable text, and this task has none"),
    "no agent": (replace(problem("text"), agent=None), "", "this task has no agent"),
    "no validation": (replace(problem("text"), validate=()), "", "this task has no validation examples"),
    "no range": (replace(problem("text"), score_range=None), "", "this task states no range of scores"),
    "several": (problem("text", "text"), "", "set demo_parameter to one of p0, p1"),
    "unknown": (
        problem("text", "float"),
        "p1",
        "demo_parameter: 'p1' is not a trainable text of this task; use one of p0",
    ),
}


@pytest.mark.parametrize(("task", "name", "why"), REFUSED.values(), ids=REFUSED)
def test_a_task_for_which_demos_make_no_sense_is_refused(task: Problem, name: str, why: str) -> None:
    with pytest.raises(TrainerError, match=why):
        parameter_for(task, name)
