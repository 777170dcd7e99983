"""Build the problem once, to check that it builds, and report what is trainable.

Where the job goes no further, a problem without trainable parameters may be: the host decides. And it is built
with its held-out examples, of a seed that no run scores with: else a mistake in them would show after training only.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.evaluate import mean_best_known
from trace_bench.worker.phases import Link, PhaseFailure, build_problem
from trace_bench.worker.problem import Problem
from trace_bench.worker.program_check import check_programs

STAND_IN_SEED = 0
"""For held-out examples where nothing is trained."""


def warm_up() -> None:
    """Nothing to import ahead."""


def run(link: Link, start: dict[str, Any], programs: CandidatePrograms) -> dict[str, Any]:
    """Returns the initial state and what the host records of the problem."""
    until = start["job"].get("until", "score")
    only = until != "score"
    problem = build_problem(link, start, programs, STAND_IN_SEED if only else None)
    if not problem.trainable and not only:
        raise PhaseFailure(
            "task", "no_trainable_parameters", f"{start['job']['task']['id']} has no trainable parameter"
        )
    if not problem.train:
        raise PhaseFailure("task", "task_build", "the problem has no training example")
    if not math.isfinite(problem.failure_score):
        raise PhaseFailure("task", "task_build", "the problem's failure score is not finite")
    names = [p.name for p in problem.parameters]
    if len(set(names)) != len(names):
        raise PhaseFailure("task", "task_build", "two parameters of the problem have one name")
    if problem.agent is None and len(problem.trainable) > 1:
        raise PhaseFailure("task", "task_build", "a problem without an agent needs exactly one trainable parameter")
    splits = ("train", "validate", "test") if only else ("train", "validate")
    return {
        "initial": problem.initial_state(),
        "parameters": [{"name": p.name, "kind": p.kind, "trainable": p.trainable} for p in problem.parameters],
        "direction": problem.direction,
        "examples": {split: len(getattr(problem, split)) for split in splits},
        "bound": _bound(problem) if until == "programs" else None,
        "best_known": mean_best_known(problem, problem.train) if until == "programs" else None,
        "programs": _checked(problem, start, programs) if until == "programs" else [],
    }


def _bound(problem: Problem) -> float | None:
    """What no answer can beat, mean over the training examples; None where nothing is known."""
    bound = problem.metadata.get("mean_bound")
    return bound() if callable(bound) else None


def _checked(problem: Problem, start: dict[str, Any], programs: CandidatePrograms) -> list[dict[str, Any]]:
    job = start["job"]
    return check_programs(problem, job["task"]["spec"], Path(start["task_dir"]), programs, job.get("programs", {}))
