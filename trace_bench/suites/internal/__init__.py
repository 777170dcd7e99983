"""The ``internal`` suite."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="internal",
    title="Small problems that exercise every kind of parameter",
    image="core",
    root="internal",
    builder="trace_bench.suites.internal.problem:build",
    in_roots=True,
)
