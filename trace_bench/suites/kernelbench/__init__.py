"""The ``kernelbench`` suite."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="kernelbench",
    title="Kernels: PyTorch modules rewritten to run faster, with the same outputs",
    image="kernelbench-cpu",
    root="kernelbench",
    builder="trace_bench.suites.kernelbench.problem:build",
)
