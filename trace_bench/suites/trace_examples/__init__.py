"""The ``trace_examples`` suite."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="trace_examples",
    title="Examples in the manner of the Trace tutorials",
    image="core",
    root="trace_examples",
    builder="trace_bench.suites.trace_examples.problem:build",
)
