"""Builds a problem from a task folder: a code task, or the ``problem.py`` with ``build(context) -> Problem`` that the
folder ships."""

from __future__ import annotations

from dataclasses import replace

from trace_bench.suites.task_folder import load_module, place, task_fault
from trace_bench.worker.objective import metrics_of
from trace_bench.worker.problem import BuildContext, Problem, ProblemError


def build(context: BuildContext) -> Problem:
    """Build the problem of `context.task_dir`.

    Raises:
        ProblemError: the folder or the arguments are at fault; the message names file and line.
    """
    if "candidates" in context.spec:
        from trace_bench.suites import code_task  # with NumPy

        return measured(code_task.build(context), context)
    path = context.task_dir / "problem.py"
    own_builder = getattr(load_module(path), "build", None)
    if not callable(own_builder):
        raise ProblemError(f"{place(path)} defines no build(context); see docs/design/job-contract.md")
    try:
        problem = own_builder(context)
    except ProblemError:
        raise
    except Exception as error:
        raise task_fault(path, error) from error
    if not isinstance(problem, Problem):
        raise ProblemError(f"{place(path)}: build() returned {type(problem).__name__} where a Problem is expected")
    return measured(problem, context)


def measured(problem: Problem, context: BuildContext) -> Problem:
    """`problem` with the metrics that the task spec declares. What they are compared by, the run says.

    Raises:
        ProblemError: the spec declares them wrongly.
    """
    try:
        return replace(problem, metrics=metrics_of(problem.score_metric, context.spec.get("metrics", {})))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProblemError(f"task.toml, [metrics]: {type(error).__name__}: {error}") from error
