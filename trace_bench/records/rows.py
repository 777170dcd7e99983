"""One row per job: what `results.json` and `results.csv` say about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, Scores, StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta, ManifestEntry, Results, Usage
from trace_bench.config.objectives import SCORE
from trace_bench.errors import HarnessError
from trace_bench.records.integrity import is_withheld

FEEDBACK_CHARACTERS = 2000


def results_row(
    meta: JobMeta,
    result: WorkerResult | None,
    usage: Usage,
    seconds: float | None,
    run: RunLayout,
    front: ParetoFront | None = None,
) -> Results:
    """The row of a job that has come to its end.

    Args:
        front: of its history, where the task has metrics.
        result: what the sandbox wrote, once collected; None if there is none.
        usage: as the gateway metered it. What the sandbox says about calls is not used.
        seconds: wall time of the job as the host measured it; where it is None, the sum over the sandbox's phases.

    Raises:
        HarnessError: the job has no final status yet.
    """
    if meta.status not in ("ok", "failed", "skipped"):
        raise HarnessError(f"job {meta.job_id} is {meta.status}: it has no row before it has ended")
    failure = meta.failure or (result.failure if result else None)
    report = meta.integrity_report
    withheld = is_withheld(failure, report)
    scores = result.scores if result and not withheld else Scores()
    job = run.job(meta.job_id)
    if seconds is None and result is not None:
        seconds = sum(result.seconds.values())
    return Results(
        run_id=meta.run_id,
        job_id=meta.job_id,
        task_id=meta.task_id,
        suite=meta.suite,
        trainer_id=meta.trainer_id,
        variant=meta.variant,
        seed=meta.seed,
        status=meta.status,
        failure_kind=failure.kind if failure else None,
        stop_reason=meta.stop_reason or (result.stop_reason if result else None),
        cut_by_run_budget=meta.cut_by_run_budget,
        integrity=meta.integrity,
        score_initial=_selection(scores.initial),
        score_final=_selection(scores.final),
        score_best=_selection(scores.best),
        score_test=scores.best.test if scores.best else None,
        score_direction=meta.score_direction,
        time_seconds=seconds,
        evaluations=result.evaluations if result else 0,
        llm_calls=usage.calls,
        llm_tries=usage.tries,
        llm_reused=usage.reused,
        llm_cached=usage.cached,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=usage.total_tokens,
        cost_usd=usage.cost_usd,
        resolved_optimizer=meta.optimizer.id,
        resolved_optimizer_kwargs=meta.optimizer.kwargs,
        resolved_guide=meta.guide,
        resolved_guide_kwargs=meta.guide_kwargs,
        resolved_logger=meta.logger,
        resolved_logger_kwargs=meta.logger_kwargs,
        resolved_trainer_kwargs=meta.params,
        eval_kwargs=meta.eval_kwargs,
        model=meta.model.id,
        llm_provider=meta.model.provider,
        llm_model=meta.model.model,
        image_key=meta.image.key if meta.image else None,
        backend=meta.backend,
        fingerprint=meta.fingerprint,
        score_claimed=report.claims["best"].score if "best" in report.claims and not withheld else None,
        integrity_flags=" ".join(report.flags),
        score_evaluations=result.score_evaluations if result else 0,
        train_seconds=result.train_seconds if result else None,
        objective=meta.objective.mode,
        metrics_initial=_metrics(meta, scores.initial),
        metrics_final=_metrics(meta, scores.final),
        metrics_best=_metrics(meta, scores.best),
        metrics_test=_metrics(meta, scores.best, test=True),
        hypervolume=front.hypervolume if front is not None and not withheld else None,
        hardware=result.hardware.name if result is not None and meta.timing_sensitive else "",
        failure_boundary=failure.boundary if failure else None,
        feedback=_feedback(failure, scores.best),
        stub_inert=meta.model.provider == "stub" and usage.calls > 0 and usage.inert == usage.calls,
        **_paths(run, job),
    )


SHARED_WITH_ENTRY = tuple(
    name for name in ManifestEntry.model_fields if name in Results.model_fields and name not in ("job_id", "status")
)
"""Columns that the manifest has too. They say what a job is."""


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


def with_known_hardware(rows: Sequence[Results]) -> list[Results]:
    """`rows`, in which jobs without a score and a record of their hardware have that of their task's other jobs, where
    these share one: a failed job is counted beside the mean of the jobs that count."""
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


def is_final(row: Results) -> bool:
    """True for an ending that counts: ok, or the job's own failure. What was cut off (by the run's budget, too), never
    ran, or failed at provider, sandbox or harness leaves the run unfinished."""
    return is_whole(row) and not row.cut_by_run_budget


def is_whole(row: Results) -> bool:
    """The same, as far as the run's budget let it come."""
    if row.status == "skipped" or was_cut(row):
        return False
    return row.failure_boundary is None or not row.failure_boundary.is_infrastructure


def was_cut(row: Results) -> bool:
    """True for a search that was ended from outside: in order, or killed."""
    return row.stop_reason == "interrupted" or row.failure_kind == "interrupted"


def _selection(scores: StateScores | None) -> float | None:
    return scores.selection if scores else None


def _metrics(meta: JobMeta, scores: StateScores | None, *, test: bool = False) -> dict[str, float]:
    """Official means of the metrics that the task declares, and of its own score among them; of no others, whatever the
    sandbox says."""
    if scores is None or not meta.objective.metrics:
        return {}
    found = scores.metrics.get("test", {}) if test else scores.selection_metrics
    return {name: found[name] for name in (SCORE, *meta.objective.metrics) if name in found}


def _feedback(failure: Failure | None, best: StateScores | None) -> str:
    """Why the job failed, or what the guide says of the best state: of the first example that it fails, else
    of the first."""
    if failure is not None:
        return failure.message[:FEEDBACK_CHARACTERS]
    if best is None or not best.examples:
        return ""
    # Held-out feedback stays out of tables: people read them while they tune.
    shown = [example for example in best.examples if example.split != "test"] or list(best.examples)
    chosen = next((example for example in shown if example.failed), shown[0])
    return chosen.feedback[:FEEDBACK_CHARACTERS]


def _paths(run: RunLayout, job: JobLayout) -> dict[str, str | None]:
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
