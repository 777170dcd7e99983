"""Runs the programs that come with a code task, for a job ``until: programs``, as every candidate is run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.worker.evaluate import evaluate_state, mean_metrics, mean_score
from trace_bench.worker.problem import Example, Problem, Programs

ROLES = ("template", "reference", "worse", "alternatives", "broken")


def check_programs(
    problem: Problem, spec: Mapping[str, Any], task_dir: Path, programs: Programs
) -> list[dict[str, Any]]:
    """`ProgramReport` of the contract for each program, in the order of `ROLES`; none for a task without programs."""
    table: Mapping[str, Any] = spec.get("candidates", {})
    reports = []
    for role in ROLES:
        named = table.get(role, ())
        for name in (named,) if isinstance(named, str) else named:
            source = (task_dir / name).read_text(encoding="utf-8")
            reports.append({"role": role, "name": str(name)} | _run(problem, source, problem.train, programs))
    return reports


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
