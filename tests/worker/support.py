"""Tasks and trainers written into a folder that the worker under test can import."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.worker.host import Outcome, job, run_worker

HEADER = """
import os, sys, time
from trace_bench.worker.problem import *
from trace_bench.worker.training import *

def problem(guide, **over):
    fields = dict(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),), guide=guide, train=examples(["a"]),
        objective="find x", direction="maximize", failure_score=-100.0,
    )
    return Problem(**{**fields, **over})

def build(context):
    return problem(lambda query, response, reference: (-abs(float(response) - 3.0), "off"))

def record(context, *, step, candidate, state, rollouts, split, parent=None, **extra):
    parents = () if parent is None else (parent,)
    context.record(Step(step, candidate, parents, state, tuple(rollouts), split, extra=extra))

class Trainer:
    uses_graph = False
    def train(self, problem, params, context):
        return problem.initial_state()
"""


def run(folder: Path, code: str = "", *, env: dict[str, str] | None = None, **options: Any) -> Outcome:
    """Run a job whose task and trainer are in `code` (after `HEADER`)."""
    name = f"mod_{abs(hash((str(folder), code))):x}"
    (folder / f"{name}.py").write_text(HEADER + textwrap.dedent(code))
    trainer = {"id": "T", "entry": f"{name}:Trainer", **options.pop("trainer", {})}
    spec = job({"builder": f"{name}:build"}, trainer, **options.pop("over", {}))
    spec["limits"].update(options.pop("limits", {}))
    # The worker under test is this checkout's, whichever one is installed.
    path = os.pathsep.join((str(folder), str(Path(__file__).parents[2])))
    return run_worker(spec, env={"PYTHONPATH": path, **(env or {})}, **options)


def others_may_read() -> bool:
    """Whether processes with uids of their own can load this checkout and its Python."""
    places = [Path(__file__).parents[2], *map(Path, (sys.base_prefix, sys.prefix))]
    return all(folder.stat().st_mode & 0o005 == 0o005 for place in places for folder in (place, *place.parents))
