"""Builds the problems of the ``internal`` suite, and of task folders that belong to no other."""

from trace_bench.suites.task_builder import build

__all__ = ["build"]
