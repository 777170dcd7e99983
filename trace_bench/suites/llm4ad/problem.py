"""Builds the problems of the ``llm4ad`` suite: code tasks all."""

from trace_bench.suites.code_task import build

__all__ = ["build"]
