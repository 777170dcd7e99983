"""Each evaluation opens one candidate process, and prints ``PHASE train`` or ``PHASE score`` as ``phased`` does."""

import os
import time

from trace_bench.worker.problem import Parameter, Problem, examples

PHASES = {1: ("train", "training"), 2: ("score", "scoring")}
SOURCE = "def distance(x):\n    return abs(x - 3.0)\n"


def build(context):
    def guide(query, response, reference):
        phase, seconds = PHASES.get(os.getuid() % 16, ("other", "training"))
        print("PHASE", phase, flush=True)
        time.sleep(context.eval_kwargs[seconds])
        with context.programs.open(SOURCE, "distance") as distance:
            return -distance(response), "off by some"

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["a", "b"]),
        validate=examples(["c"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-100.0,
    )
