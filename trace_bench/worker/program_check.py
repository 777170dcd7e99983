"""Runs the programs that come with a task or a job, for a job ``until: programs``, as every candidate is run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trace_bench.worker.evaluate import evaluate_state, mean_metrics, mean_score
from trace_bench.worker.levels import at_level
from trace_bench.worker.problem import Example, Problem, ProblemError, Programs

ROLES = ("template", "reference", "stateless", "worse", "alternatives", "broken")


def check_programs(
    problem: Problem,
    spec: Mapping[str, Any],
    task_dir: Path,
    programs: Programs,
    given: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """`ProgramReport` of the contract for each program, in the order of `ROLES`, and then for those `given`: sources by
    name. Of foreign code, the values that it begins with are the template. The reference of the stateless form runs in
    that form.

    Raises:
        ProblemError: a program is given, and the task has not one parameter that it could be the value of.
    """
    table: Mapping[str, Any] = spec.get("candidates", {})
    states = [(role, name, _state(problem, source)) for role, name, source in _programs(table, task_dir)]
    if "foreign" in spec and not table:
        states.append(("template", "the template", problem.initial_state()))
    states += [("given", name, _state(problem, source)) for name, source in given.items()]
    stateless = replace(problem, guide=problem.metadata.get("stateless_guide") or problem.guide)
    return [
        {"role": role, "name": name}
        | _run(stateless if role == "stateless" else problem, state, problem.train, programs)
        for role, name, state in states
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


def _state(problem: Problem, source: str) -> dict[str, Any]:
    if len(problem.trainable) != 1 or problem.trainable[0].kind != "code":
        kinds = ", ".join(f"{p.name} ({p.kind})" for p in problem.trainable) or "none"
        raise ProblemError(f"a program is the value of one trainable parameter of code; this task has {kinds}")
    return problem.initial_state() | {problem.trainable[0].name: source}


def _run(problem: Problem, state: Mapping[str, Any], examples: Sequence[Example], programs: Programs) -> dict[str, Any]:
    began = time.perf_counter()
    rollouts = evaluate_state(problem, dict(state), examples, programs)
    seconds = time.perf_counter() - began
    failed = [r for r in rollouts if r.failed]
    shown = (failed or rollouts)[0]
    return {
        "score": mean_score(rollouts),
        "scores": [rollout.score for rollout in rollouts],
        "metrics": mean_metrics(rollouts),
        "failed": len(failed),
        "examples": len(rollouts),
        "seconds": round(seconds, 3),
        "feedback": shown.feedback[:2000],
    }
