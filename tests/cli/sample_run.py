"""Jobs and rows of a run that never was, for those that show one."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.execution.events import Decision, RunStarted

RUN_ID = "20260102-030405-0123abcd"
LAYOUT = RunLayout(Path("runs") / RUN_ID)
STEP: dict[str, Any] = {
    "step": 3, "candidate": "c3", "parents": ["seed"], "split": "train", "score": -0.5, "best_score": -0.25,
    "seconds": 1.5, "prompt_tokens": 100, "completion_tokens": 20, "cost_usd": 0.5, "evaluations": 6,
    "parameters": {"code": "secret"}, "extra": {"priority": 1.5},
}  # fmt: skip
NASTY = "\x1b[2J\x9b31m\x7f\u202ebad\nworse\r"
"""What a sandbox may say to a terminal."""


@dataclass(frozen=True)
class SampleJob:
    job_id: str
    task_id: str = "internal:numeric_param"
    trainer_id: str = "PrioritySearch"
    variant: str = "num_steps=2"
    model: str = "stub"
    seed: int = 7
    score_direction: Direction = "maximize"
    decision: Decision = "run"
    reason: str = "new"


def job(number: int, **fields: Any) -> SampleJob:
    return SampleJob(f"{number:012x}", **fields)


def row(job: SampleJob, **fields: Any) -> Results:
    given: dict[str, Any] = {"status": "ok", "stop_reason": "completed", "score_initial": -3.0, "score_best": -0.5,
                             "time_seconds": 2.0, "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                             "cost_usd": 0.25, "llm_calls": 3, **fields}  # fmt: skip
    return Results(
        run_id=RUN_ID,
        job_id=job.job_id,
        task_id=job.task_id,
        suite=job.task_id.partition(":")[0],
        trainer_id=job.trainer_id,
        variant=job.variant,
        seed=job.seed,
        integrity="protected",
        score_direction=job.score_direction,
        resolved_optimizer="OptoPrime",
        model=job.model,
        fingerprint="0" * 64,
        **given,
    )


def failed(job: SampleJob, **fields: Any) -> Results:
    given: dict[str, Any] = {"status": "failed", "failure_boundary": "task", "failure_kind": "build_error",
                             "feedback": "It does not build. Look at it.", "score_best": None, **fields}  # fmt: skip
    return row(job, **given)


def skipped(job: SampleJob, **fields: Any) -> Results:
    nothing: Mapping[str, Any] = dict.fromkeys(("score_initial", "score_best", "time_seconds", "stop_reason"))
    spent: Mapping[str, Any] = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "llm_calls"), 0)
    given: dict[str, Any] = {**nothing, **spent, "cost_usd": 0.0, "status": "skipped",
                             "feedback": "another job failed, and fail_fast is set", **fields}  # fmt: skip
    return row(job, **given)


def start(jobs: Sequence[SampleJob], **fields: Any) -> RunStarted:
    return RunStarted(**{"run_id": RUN_ID, "layout": LAYOUT, "jobs": jobs, "workers": 2, **fields})


class Terminal(io.StringIO):
    """Takes what is written to a terminal."""

    def isatty(self) -> bool:
        return True
