from __future__ import annotations

from typing import Any

import pytest

from trace_bench.errors import TaskError
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import Parameter, Problem, examples
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
