"""Runs the programs that come with a code task, for a job ``until: programs``, as every candidate is run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.worker.evaluate import evaluate_state, mean_metrics, mean_score
from trace_bench.worker.levels import at_level
from trace_bench.worker.problem import Example, Problem, Programs

ROLES = ("template", "reference", "worse", "alternatives", "broken")


def check_programs(
    problem: Problem, spec: Mapping[str, Any], task_dir: Path, programs: Programs
) -> list[dict[str, Any]]:
    """`ProgramReport` of the contract for each program, in the order of `ROLES`; none for a task without programs."""
    table: Mapping[str, Any] = spec.get("candidates", {})
    return [
        {"role": role, "name": name} | _run(problem, source, problem.train, programs)
        for role, name, source in _programs(table, task_dir)
    ]


def _programs(table: Mapping[str, Any], task_dir: Path) -> Iterator[tuple[str, str, str]]:
    """Role, name and source of each program that ``[candidates]`` names, and of each level of the reference."""
    for role in ROLES:
        named = table.get(role, ())
        for name in (named,) if isinstance(named, str) else named:
            source = (task_dir / name).read_text(encoding="utf-8")
            if role == "reference":
                yield from (("level", f"level {n}", at_level(source, n)) for n in range(1, table.get("levels", 1)))
            yield role, str(name), source


def _run(problem: Problem, source: str, examples: Sequence[Example], programs: Programs) -> dict[str, Any]:
    (parameter,) = problem.trainable
    began = time.perf_counter()
    rollouts = evaluate_state(problem, {parameter.name: source}, examples, programs)
    seconds = time.perf_counter() - began
    failed = [r for r in rollouts if r.failed]
    shown = (failed or rollouts)[0]
    return {
        "score": mean_score(rollouts),
        "metrics": mean_metrics(rollouts),
        "failed": len(failed),
        "examples": len(rollouts),
        "seconds": round(seconds, 3),
        "feedback": shown.feedback[:2000],
    }
