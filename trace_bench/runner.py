"""The prototype's import path of `BenchRunner`."""

from trace_bench.integrations import BenchRunner, RunSummary

__all__ = ["BenchRunner", "RunSummary"]
