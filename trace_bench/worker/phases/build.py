"""Builds the problem once, to see that it builds, and says what is trainable."""

from __future__ import annotations

import math
from typing import Any

from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.phases import Link, PhaseFailure, build_problem


def warm_up() -> None:
    """Nothing to import ahead."""


def run(link: Link, start: dict[str, Any], programs: CandidatePrograms) -> dict[str, Any]:
    """Returns the initial state and what the host records of the problem."""
    problem = build_problem(start, programs)
    if not problem.trainable:
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
    if problem.agent is None and len(problem.trainable) != 1:
        raise PhaseFailure("task", "task_build", "a problem without an agent needs exactly one trainable parameter")
    return {
        "initial": problem.initial_state(),
        "parameters": [{"name": p.name, "kind": p.kind, "trainable": p.trainable} for p in problem.parameters],
        "direction": problem.direction,
        "examples": {"train": len(problem.train), "validate": len(problem.validate)},
    }
