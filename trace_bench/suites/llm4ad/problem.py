"""Builds the problems of the ``llm4ad`` suite."""

from trace_bench.suites.task_builder import build

__all__ = ["build"]
