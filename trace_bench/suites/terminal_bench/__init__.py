"""The ``terminal_bench`` suite: prompts of agents that work in a terminal, judged by trials of Harbor."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="terminal_bench",
    title="Terminal-Bench: prompts of agents in a terminal, by trials of Harbor",
    image="core",
    root="terminal_bench",
    builder="trace_bench.suites.terminal_bench.problem:build",
    services=("trace_bench.suites.terminal_bench.host:HarborService",),
    any_task=".other",
)
