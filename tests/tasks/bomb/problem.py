"""Every process forks as soon as it may, until the time is over; once, in training. Says when. For containers."""

import json
import os
import time
from pathlib import Path

from trace_bench.worker.problem import Limits, Parameter, Problem, examples

BOMB = """
import os, time

def bomb(seconds):
    first, end, refused = os.getpid(), time.time() + seconds, 0
    while time.time() < end:
        try:
            os.fork()
        except OSError:
            refused += 1
            time.sleep(0.005)
    if os.getpid() != first:
        os._exit(0)
    return refused
"""

QUIET = """
import os, time

def quiet(seconds):
    end, refused = time.time() + seconds, 0
    while time.time() < end:
        try:
            pid = os.fork()
        except OSError:
            refused += 1
            pid = None
        if pid == 0:
            os._exit(0)
        if pid:
            os.waitpid(pid, 0)
        time.sleep(0.01)
    return refused
"""


def build(context):
    who, seconds = context.eval_kwargs["who"], context.eval_kwargs["seconds"]
    if not Path("/out").is_dir() or os.getuid() == 0:
        raise RuntimeError("the bomb is for containers only, and never for root")

    went_off = []

    def guide(query, response, reference):
        if os.getuid() % 16 == 1 and not went_off:
            went_off.append(True)
            began = time.time()
            if who == "trainer":
                found = {}
                exec(BOMB, found)
                refused = found["bomb"](seconds)
            else:
                needs = frozenset({"processes"})
                limits = Limits(wall_seconds=seconds + 20, cpu_seconds=60, processes=32, needs=needs)
                source, name = (QUIET, "quiet") if who == "quiet" else (BOMB, "bomb")
                with context.programs.open(source, name, limits) as program:
                    refused = program(seconds)
            print("BOMB", json.dumps({"began": began, "ended": time.time(), "refused": refused}))
        return -abs(response - 3.0), "off"

    return Problem(
        parameters=(Parameter("x", 1.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Multiply.",
        direction="maximize",
        failure_score=-100.0,
    )
