"""The official scores: a fresh process loads saved states and scores them. Nothing that training claimed is used."""

from __future__ import annotations

import json
from typing import Any

from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.evaluate import best_known, evaluate_state, mean_metrics, mean_score
from trace_bench.worker.phases import Link, PhaseFailure, build_problem
from trace_bench.worker.phases.progress import Progress
from trace_bench.worker.problem import Problem


def warm_up() -> None:
    """Nothing to import ahead."""


def run(link: Link, start: dict[str, Any], programs: CandidatePrograms) -> dict[str, Any]:
    """Return ``{"scores": {initial|best|final: {split: mean, …, "examples": […]}}, …}``, as `StateScores` has it.

    Equal states are scored once. A split without examples is absent.
    """
    problem = build_problem(link, start, programs, start["test_seed"])
    done: dict[str, dict[str, Any]] = {}
    scores: dict[str, Any] = {}
    evaluations = 0
    for kind, state in start["states"].items():
        check_state(problem, kind, state)
        key = json.dumps(state, sort_keys=True)
        if key not in done:
            done[key], count = _score(problem, kind, state, programs, link)
            evaluations += count
        scores[kind] = done[key]
        means = {split: value for split, value in done[key].items() if split not in ("examples", "metrics")}
        link.send("event", kind="score", fields={"state": kind, **means})
    return {"scores": scores, "evaluations": evaluations, "direction": problem.direction}


def _score(
    problem: Problem, kind: str, state: dict[str, Any], programs: CandidatePrograms, link: Link
) -> tuple[dict[str, Any], int]:
    """Means and examples of one state. Where a budget ends meanwhile, they are of the examples before that."""
    selection = "validate" if problem.validate else "train"
    result: dict[str, Any] = {}
    metrics: dict[str, dict[str, float]] = {}
    rows: list[dict[str, Any]] = []
    for split in (selection, "test"):
        chosen = getattr(problem, split)
        if chosen:
            progress = Progress(link, split, kind)
            rollouts = evaluate_state(problem, state, chosen, programs, progress, partial=True)
            if len(rollouts) < len(chosen):
                part = f"{len(rollouts)} of {len(chosen)} examples"
                ended = f"the run's budget ended while the {kind} state was scored: {part}"
                if not rollouts:
                    raise PhaseFailure("task", "budget", f"{ended} of {split}; raise budget.run, or lower num_{split}")
                link.send("warn", message=f"{ended} of {split} count")
            result[split] = mean_score(rollouts)
            if problem.metrics:
                metrics[split] = mean_metrics(rollouts)
            known = [best_known(problem, example) for example in chosen]
            rows += [
                {
                    "split": split,
                    "id": r.example_id,
                    "score": r.score,
                    "failed": r.failed,
                    "feedback": r.feedback[:2000],
                    "metrics": dict(r.metrics),
                    **({} if best is None else {"best_known": best}),
                }
                for r, best in zip(rollouts, known, strict=False)  # a budget can end the scoring early
            ]
    return {**result, "metrics": metrics, "examples": rows}, len(rows)


def check_state(problem: Problem, kind: str, state: dict[str, Any]) -> None:
    """Check that a saved state has exactly the trainable parameters, with values of their kinds.

    Raises:
        PhaseFailure: at ``trainer``: the state came from there.
    """
    names = {p.name for p in problem.trainable}
    if set(state) != names:
        raise PhaseFailure("trainer", "bad_state", f"the {kind} state names {sorted(state)}, not {sorted(names)}")
    kinds: dict[str, tuple[type, ...]] = {
        "code": (str,),
        "text": (str,),
        "int": (int,),
        "float": (int, float),
    }
    for parameter in problem.trainable:
        value = state[parameter.name]
        if isinstance(value, bool) or not isinstance(value, kinds[parameter.kind]):
            raise PhaseFailure("trainer", "bad_state", f"{parameter.name} of the {kind} state is no {parameter.kind}")
