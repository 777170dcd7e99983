"""The ``hf`` suite: prompts and small agents, judged on public data sets of the Hugging Face hub."""

from trace_bench.suites.base import Suite

SUITE = Suite(
    name="hf",
    title="Question answering and code: public data sets of the Hugging Face hub",
    image="core",
    root="hf",
    builder="trace_bench.suites.task_builder:build",
    maker="trace_bench.suites.hf.entries:task_folders",
)
