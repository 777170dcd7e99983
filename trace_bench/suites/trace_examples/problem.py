"""Builds the problems of the ``trace_examples`` suite."""

from trace_bench.suites.task_builder import build

__all__ = ["build"]
