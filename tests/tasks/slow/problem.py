"""Evaluations in training take as long as they are told, or until there is the file that they are told of."""

import os
import time
from pathlib import Path

from trace_bench.worker.problem import Parameter, Problem, examples


def build(context):
    def guide(query, response, reference):
        if os.getuid() % 16 == 1 or os.getuid() == 0:
            wait(context.eval_kwargs["seconds"], context.eval_kwargs["until"])
        return -abs(response - 3.0), "off by some"

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-100.0,
    )


def wait(seconds, until):
    if not until:
        time.sleep(seconds)
        return
    Path(until + ".begun").touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not Path(until).exists():
        time.sleep(0.02)
