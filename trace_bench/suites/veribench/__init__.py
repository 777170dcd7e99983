"""The ``veribench`` suite."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="veribench",
    title="Lean 4: Python programs to translate and prove, judged by Lean",
    image="lean",
    root="veribench",
    builder="trace_bench.suites.veribench.problem:build",
    maker="trace_bench.suites.veribench.rows:task_folders",
)
