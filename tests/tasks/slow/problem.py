"""Evaluations in training take as long as they are told."""

import os
import time

from trace_bench.worker.problem import Parameter, Problem, examples


def build(context):
    def guide(query, response, reference):
        if os.getuid() % 16 == 1 or os.getuid() == 0:
            time.sleep(context.eval_kwargs["seconds"])
        return -abs(response - 3.0), "off by some"

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-100.0,
    )
