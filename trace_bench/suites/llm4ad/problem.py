"""The builder of this suite's problems."""

from __future__ import annotations

from trace_bench.suites import task_builder
from trace_bench.worker.problem import BuildContext, Problem


def build(context: BuildContext) -> Problem:
    """Build the problem of a task folder, of foreign code too.

    Raises:
        ProblemError: the folder or the arguments are at fault; the message names file and line.
    """
    if "foreign" in context.spec and "candidates" not in context.spec:
        from trace_bench.suites.llm4ad import compat

        return compat.build(context)
    return task_builder.build(context)
