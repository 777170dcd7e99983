"""Make the row of a job (``results.json``, and a line of ``results.csv``), and list the columns of tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trace_bench.artifacts.calls import SCORE_PHASE, Usage
from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, Scores, StateScores, WorkerResult
from trace_bench.artifacts.records import OTHER_NAMES, JobMeta, ManifestEntry, Results
from trace_bench.config.objectives import SCORE
from trace_bench.errors import HarnessError
from trace_bench.records.integrity import is_withheld

FEEDBACK_CHARACTERS = 2000
CANNOT_RUN = "cannot run here: "
"""Before the reason of a job that was skipped because it lacked a precondition."""
NORMALISED = "normalised"
"""The metric that is 1 at a task's bound or target and 0 for a failure."""
GAP = "gap"
"""The metric that is 1 at the best known score and 0 at that of the template."""
SHARED_WITH_META = (
    "run_id", "job_id", "task_id", "suite", "trainer_id", "variant", "seed", "status", "cut_by_run_budget",
    "integrity", "score_direction", "eval_kwargs", "backend", "fingerprint",
)  # fmt: skip
"""Columns that are fields of the job's record."""
SHARED_WITH_USAGE = (
    "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "total_tokens", "cost_usd",
)  # fmt: skip
"""Columns that are fields of `Usage`."""
SHARED_WITH_ENTRY = tuple(
    name for name in ManifestEntry.model_fields if name in Results.model_fields and name not in ("job_id", "status")
)
"""Columns that the manifest has too. They say what a job is."""

STATES = ("initial", "final", "best", "test")
LATER = ("evaluations_saved", "search_answers", "unusable_answers", "scoring_calls")
"""The last fields of `Results`. ``results.csv`` of a run of an earlier version is made again without them."""
FIELDS = tuple(name for name in Results.model_fields if name not in LATER)
"""Columns of every ``results.csv``."""


def normalised_score(metrics: Mapping[str, float]) -> float | None:
    """What tasks are averaged by, of the metrics of a state: `GAP` where the task has it, else `NORMALISED`."""
    return metrics.get(GAP, metrics.get(NORMALISED))


def results_row(
    meta: JobMeta,
    result: WorkerResult | None,
    usage: Usage,
    seconds: float | None,
    run: RunLayout,
    front: ParetoFront | None = None,
) -> Results:
    """The row of a job that has ended.

    Args:
        result: what the sandbox wrote, after collection; None if there is none.
        usage: as the gateway measured it. The sandbox's own count of calls is not used.
        seconds: wall time of the job on the host; None for the sum over the phases of the sandbox.
        front: the Pareto front of its history, if the task has metrics.

    Raises:
        HarnessError: the job has no final status yet.
    """
    if meta.status not in ("ok", "failed", "skipped"):
        raise HarnessError(f"job {meta.job_id} is {meta.status}: it has no row before it has ended")
    failure = meta.failure or (result.failure if result else None)
    withheld = is_withheld(failure, meta.integrity_report)
    scores = result.scores if result and not withheld else Scores()
    if seconds is None and result is not None:
        seconds = sum(result.seconds.values())
    return Results(
        **{name: getattr(meta, name) for name in SHARED_WITH_META},
        **{name: getattr(usage, name) for name in SHARED_WITH_USAGE},
        **_resolved(meta),
        **_scores(meta, scores, withheld=withheld),
        **_paths(run, run.job(meta.job_id)),
        time_seconds=seconds,
        train_seconds=result.train_seconds if result else None,
        evaluations=result.evaluations if result else 0,
        evaluations_saved=result.evaluations_saved if result else None,
        search_answers=result.search_answers if result else None,
        unusable_answers=result.unusable_answers if result else None,
        score_evaluations=result.score_evaluations if result else 0,
        llm_calls=usage.calls,
        scoring_calls=meta.usage_by_phase.get(SCORE_PHASE, Usage()).calls or None,
        llm_tries=usage.tries,
        llm_reused=usage.reused,
        llm_cached=usage.cached,
        stub_inert=meta.model.provider == "stub" and usage.calls > 0 and usage.inert == usage.calls,
        failure_boundary=failure.boundary if failure else None,
        failure_kind=failure.kind if failure else None,
        stop_reason=meta.stop_reason or (result.stop_reason if result else None),
        feedback=_feedback(failure, scores.best),
        hypervolume=front.hypervolume if front is not None and not withheld else None,
        hardware=result.hardware.name if result is not None and meta.timing_sensitive else "",
    )


def _resolved(meta: JobMeta) -> dict[str, Any]:
    """The columns that say what the job was."""
    return {
        "resolved_optimizer": meta.optimizer.id,
        "resolved_optimizer_kwargs": meta.optimizer.kwargs,
        "resolved_guide": meta.guide,
        "resolved_guide_kwargs": meta.guide_kwargs,
        "resolved_logger": meta.logger,
        "resolved_logger_kwargs": meta.logger_kwargs,
        "resolved_trainer_kwargs": meta.params,
        "model": meta.model.id,
        "llm_provider": meta.model.provider,
        "llm_model": meta.model.model,
        "image_key": meta.image.key if meta.image else None,
        "objective": meta.objective.mode,
    }


def _scores(meta: JobMeta, scores: Scores, *, withheld: bool) -> dict[str, Any]:
    """The columns of scores and metrics."""
    claims = meta.integrity_report.claims
    return {
        "score_initial": scores.initial.selection if scores.initial else None,
        "score_final": scores.final.selection if scores.final else None,
        "score_best": scores.best.selection if scores.best else None,
        "score_test": scores.best.test if scores.best else None,
        "score_claimed": claims["best"].score if "best" in claims and not withheld else None,
        "integrity_flags": " ".join(meta.integrity_report.flags),
        "metrics_initial": _metrics(meta, scores.initial),
        "metrics_final": _metrics(meta, scores.final),
        "metrics_best": _metrics(meta, scores.best),
        "metrics_test": _metrics(meta, scores.best, test=True),
    }


def skipped_row(run_id: str, entry: ManifestEntry) -> Results:
    """The row of a job that was not executed before the run ended: ``skipped``, kind ``not_executed``."""
    return Results(
        run_id=run_id,
        job_id=entry.job_id,
        status="skipped",
        failure_kind="not_executed",
        feedback=entry.reason or "",
        **{name: getattr(entry, name) for name in SHARED_WITH_ENTRY},
    )


def skip_reasons(rows: Iterable[Results]) -> Iterator[tuple[str, str]]:
    """Task and reason of the skipped jobs among `rows`."""
    return ((row.task_id, row.feedback) for row in rows if row.status == "skipped")


def unmet_preconditions(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The preconditions that jobs lacked, each with the task of every job that lacked it.

    Args:
        reasons: task and `Results.feedback` of skipped jobs.
    """
    found: dict[str, list[str]] = {}
    for task, reason in reasons:
        if reason.startswith(CANNOT_RUN):
            found.setdefault(reason.removeprefix(CANNOT_RUN), []).append(task)
    return found


def unmet_sentences(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence about each of `unmet_preconditions`.

    >>> unmet_sentences([("internal:a", CANNOT_RUN + "no image"), ("internal:b", CANNOT_RUN + "no image")])
    ['2 jobs of internal:a, internal:b cannot run here: no image']
    """
    return [
        f"{len(tasks)} job{'' if len(tasks) == 1 else 's'} of {_some(list(dict.fromkeys(tasks)))} {CANNOT_RUN}{why}"
        for why, tasks in unmet_preconditions(reasons).items()
    ]


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def with_known_hardware(rows: Sequence[Results]) -> list[Results]:
    """`rows`, in which failed jobs without a known hardware get that of the task's other jobs, if these have only one.
    A failed job is counted beside the mean of jobs on its hardware."""
    known: dict[str, set[str]] = {}
    for row in rows:
        if row.hardware:
            known.setdefault(row.task_id, set()).add(row.hardware)
    return [
        row.model_copy(update={"hardware": next(iter(found))})
        if not row.hardware and row.score_best is None and len(found := known.get(row.task_id, ())) == 1
        else row
        for row in rows
    ]


def named_task(task_id: str, fixture: bool) -> str:
    """The task in tables; one on the fixture of a data set is marked, as its scores are none of the data set's."""
    return f"{task_id} (fixture)" if fixture else task_id


def is_final(row: Results) -> bool:
    """Whether the job has finished: it is ok, or failed for a reason of its own. A job that was cut off (also by the
    run's budget), was not executed, or failed at provider, sandbox or harness has not finished."""
    return is_whole(row) and not row.cut_by_run_budget


def is_whole(row: Results) -> bool:
    """As `is_final`, but true for a job that the run's budget cut."""
    if row.status == "skipped" or was_cut(row):
        return False
    return row.failure_boundary is None or not row.failure_boundary.is_infrastructure


def was_cut(row: Results) -> bool:
    """Whether the job was interrupted from outside: stopped, or killed."""
    return row.stop_reason == "interrupted" or row.failure_kind == "interrupted"


def _metrics(meta: JobMeta, scores: StateScores | None, *, test: bool = False) -> dict[str, float]:
    """Official means of the metrics that the task declares, and of its own score. The sandbox can report others."""
    if scores is None or not meta.objective.metrics:
        return {}
    found = scores.metrics.get("test", {}) if test else scores.selection_metrics
    return {name: found[name] for name in (SCORE, *meta.objective.metrics) if name in found}


def _feedback(failure: Failure | None, best: StateScores | None) -> str:
    """Why the job failed; or the guide's feedback on the best state, for the first failed example or else the first."""
    if failure is not None:
        return failure.message[:FEEDBACK_CHARACTERS]
    if best is None or not best.examples:
        return ""
    # Held-out feedback stays out of tables, which people read while they tune.
    shown = [example for example in best.examples if example.split != "test"] or list(best.examples)
    chosen = next((example for example in shown if example.failed), shown[0])
    return chosen.feedback[:FEEDBACK_CHARACTERS]


def _paths(run: RunLayout, job: JobLayout) -> dict[str, Any]:
    """Paths of the files that exist, relative to the run."""
    files: dict[str, Path] = {
        "initial_state_path": job.initial_state,
        "best_state_path": job.best_state,
        "final_state_path": job.final_state,
        "state_history_path": job.state_history,
        "pareto_path": job.pareto,
        "tb_logdir": job.tb,
    }
    return {name: run.relative(path) if path.exists() else None for name, path in files.items()}


# -------------------------------------------------------------------------------------------------------- columns


def field_columns(rows: Sequence[Results]) -> tuple[str, ...]:
    """The fields of `Results` that ``results.csv`` of `rows` has as columns, in order."""
    return *FIELDS, *(name for name in LATER if any(getattr(row, name) is not None for row in rows))


def other_columns(rows: Sequence[Results]) -> Mapping[str, str]:
    """`OTHER_NAMES`; nothing for the rows of an earlier version, which were written without most `LATER` fields."""
    ended = [row for row in rows if row.status != "skipped"]
    return OTHER_NAMES if not ended or any("unusable_answers" in row.model_fields_set for row in ended) else {}


def metric_columns(rows: Sequence[Results]) -> Mapping[str, Callable[[Results], float | None]]:
    """Columns and how each is read off a row: ``metric_best:NAME`` and so on, by metric in the order in which `rows`
    have them first; none that is empty in every row.

    Metrics of different tasks stand side by side: a row has nothing in those of another task.
    """
    names = dict.fromkeys(name for row in rows for state in ("best", *STATES) for name in _metrics_of(row, state))
    return {
        f"metric_{state}:{name}": partial(_metric_of, state, name)
        for name in names
        for state in STATES
        if any(name in _metrics_of(row, state) for row in rows)
    }


def _metric_of(state: str, name: str, row: Results) -> float | None:
    return _metrics_of(row, state).get(name)


def _metrics_of(row: Results, state: str) -> Mapping[str, float]:
    metrics: Mapping[str, float] = getattr(row, f"metrics_{state}")
    return metrics
