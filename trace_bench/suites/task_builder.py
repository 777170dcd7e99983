"""Builds a problem from a task folder, by the table that its ``task.toml`` has.

A folder without any of these tables ships a ``problem.py`` with ``build(context) -> Problem``.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

from trace_bench.suites.task_folder import load_module, place, task_fault
from trace_bench.worker.objective import metrics_of
from trace_bench.worker.problem import BuildContext, Problem, ProblemError

_BUILDERS = {
    "kernel": "trace_bench.suites.kernelbench.problem",
    "lean": "trace_bench.suites.veribench.problem",
    "candidates": "trace_bench.suites.code_task",
    "foreign": "trace_bench.suites.llm4ad.compat",
    "qa": "trace_bench.suites.hf.problem",
}
"""Modules with a function ``build``. Each is imported only for a task that needs it; the first table counts."""


def build(context: BuildContext) -> Problem:
    """Build the problem of `context.task_dir`.

    Raises:
        ProblemError: the folder or the arguments are at fault; the message names file and line.
    """
    for table, builder in _BUILDERS.items():
        if table in context.spec:
            made: Problem = importlib.import_module(builder).build(context)
            return made if table == "foreign" else _measured(made, context)  # foreign code measures nothing else
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
    return _measured(problem, context)


def _measured(problem: Problem, context: BuildContext) -> Problem:
    """`problem` with the metrics that the task spec declares. What they are compared by, the run says."""
    try:
        return replace(problem, metrics=metrics_of(problem.score_metric, context.spec.get("metrics", {})))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProblemError(f"task.toml, [metrics]: {type(error).__name__}: {error}") from error
