"""Prints ``PHASE train`` or ``PHASE score`` before every evaluation, so that a fault can be made to meet it there."""

import os
import time

from trace_bench.worker.problem import Parameter, Problem, examples

PHASES = {1: ("train", "training"), 2: ("score", "scoring")}


def build(context):
    def guide(query, response, reference):
        phase, seconds = PHASES.get(os.getuid() % 16, ("other", "training"))
        print("PHASE", phase, flush=True)
        time.sleep(context.eval_kwargs[seconds])
        return -abs(response - 3.0), "off by some"

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-100.0,
    )
