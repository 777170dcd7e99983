"""A job's row and front, derived again from what its sandbox handed back and what the host recorded of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RESULT, JobLayout, RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.errors import HarnessError
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import results_row

M = TypeVar("M", bound=BaseModel)


def read_meta(job: JobLayout) -> JobMeta | None:
    """``job_meta.json``; None if it is not there.

    Raises:
        HarnessError: it is damaged.
    """
    return _read(JobMeta, job.meta)


def last_result(job: JobLayout, meta: JobMeta) -> WorkerResult | None:
    """What the sandbox of the job's last attempt wrote; None if it wrote nothing.

    Raises:
        HarnessError: it is damaged.
    """
    if not meta.attempts:
        return None
    return _read(WorkerResult, job.attempt_out(meta.attempts[-1].number) / RESULT)


def derived_front(job: JobLayout, meta: JobMeta) -> ParetoFront | None:
    """``pareto.json`` as the job's history has it; None where there is none to be."""
    return pareto_front(job.state_history, job.job_id, meta.objective)


def derived_row(run: RunLayout, job: JobLayout, meta: JobMeta, *, seconds: float | None = None) -> Results:
    """``results.json`` as record, result and history have it. Calls and tokens are those of ``job_meta.json``, which
    are sums over the cassette.

    Args:
        seconds: wall time of the last attempt, which no other file has to the last digit; None takes it from the
            attempt's times.

    Raises:
        HarnessError: the job has not ended, or a file is damaged.
    """
    if seconds is None and meta.attempts:
        last = meta.attempts[-1]
        seconds = _between(last.started_at, last.ended_at)
    return results_row(meta, last_result(job, meta), meta.usage, seconds, run, derived_front(job, meta))


def _between(start: str, end: str | None) -> float | None:
    if end is None:
        return None
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _read(model: type[M], path: Path) -> M | None:
    try:
        return read_model(model, path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        raise HarnessError(f"{path}: {error}") from None
