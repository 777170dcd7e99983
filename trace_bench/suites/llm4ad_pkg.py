"""The ``llm4ad_pkg`` suite: the evaluations of the package llm4ad as it is on the package index."""

from trace_bench.suites.llm4ad import ForeignSuite

SUITE = ForeignSuite(
    name="llm4ad_pkg",
    title="Algorithm design: the evaluations of the package llm4ad",
    image="llm4ad+llm4ad_pkg",
    root="LLM4AD_pkg",
    builder="trace_bench.suites.llm4ad.problem:build",
    listed=False,
    checkout=("llm4ad", "task"),
    in_roots=True,
)
