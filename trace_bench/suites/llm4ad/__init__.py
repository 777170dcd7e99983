"""The ``llm4ad`` suite."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="llm4ad",
    title="Algorithm design: heuristics judged on generated instances",
    image="llm4ad",
    root="LLM4AD/benchmark_tasks",
    builder="trace_bench.suites.llm4ad.problem:build",
)
