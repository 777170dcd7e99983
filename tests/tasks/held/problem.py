"""Prints what one evaluation in training has of the machine, and from when to when."""

import json
import os
import time
from pathlib import Path

from trace_bench.worker.problem import Parameter, Problem, examples


def allowed():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


def usable(path):
    try:
        with path.open("rb") as file:
            return file.read(1) == b"\0"
    except OSError:
        return False


def build(context):
    def guide(query, response, reference):
        if os.getuid() % 16 != 2:  # the scorer's, where phases have uids of their own
            begin = time.time()
            time.sleep(context.eval_kwargs["seconds"])
            found = sorted(Path("/dev").glob("trace-bench-test-*"))
            said = {"begin": begin, "end": time.time(), "devices": [str(p) for p in found], "cores": allowed()}
            print("HELD", json.dumps(said | {"usable": [str(p) for p in found if usable(p)]}))
        return -abs(response - 3.0), "off by some"

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Find 3.",
        direction="maximize",
        failure_score=-100.0,
    )
