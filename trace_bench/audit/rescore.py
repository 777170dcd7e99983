"""``--score-only``: a fresh scorer scores the saved states of a run again. Nothing is trained.

This is the score phase of a job: the held-out seed follows from the published salt, and model calls are answered with
the recorded calls of that phase. The recorded scores are only compared. The states are untrusted: they are read with
limits, and run where candidates run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trace_bench.artifacts.contract import Split, State
from trace_bench.artifacts.derived import ReplayDifference
from trace_bench.artifacts.jsonio import canonical, dumps
from trace_bench.artifacts.layout import RESULT, JobLayout
from trace_bench.artifacts.outputs import StateKind, StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.reproduction import JobReproduction, ScoreCheck, Verdict
from trace_bench.audit.reading import Folder, Unreadable
from trace_bench.audit.reproduce import Prepared
from trace_bench.cancellation import Cancellation
from trace_bench.errors import Interrupted
from trace_bench.execution.aside import resources_aside
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.validate import workers_for
from trace_bench.gateway.base import Provider
from trace_bench.gateway.replay import ReplayProvider
from trace_bench.gateway.server import Gateway
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import scoring_only
from trace_bench.records.replay_check import same
from trace_bench.records.rows import is_final

STATES: tuple[StateKind, ...] = ("initial", "best", "final")
SCORE = "score"
OWN_SCORE = "own score"
"""Name of the task's own score among metrics, where another objective compares states."""
MAX_TRIES = 2
"""Attempts at a job whose sandbox fails."""
_TEXT = 300


@dataclass(frozen=True)
class Recorded:
    """A score in a file of the run. `split` is None for the split that states are compared on."""

    state: StateKind
    split: Split | None
    metric: str
    file: str
    value: float | None


def rescore(prepared: Prepared, *, stop: Cancellation | None = None) -> list[JobReproduction]:
    """Score the saved states of the chosen jobs, up to ``max_workers`` jobs at a time; in the order of the plan.

    Args:
        stop: ends the scoring.

    Raises:
        Interrupted: it was stopped. All sandboxes are removed.
        EnvironmentUnavailable, SandboxError: the machine lacks something that all sandboxes need. Likewise.
    """
    plan, chosen, recording = prepared.plan, prepared.chosen, prepared.recording
    stop = stop or Cancellation()
    of_scoring = stop.child()
    provider: Provider = ReplayProvider(
        lambda job_id: replace(recording.recorded(job_id), phase="score"), keep=plan.config.max_workers + 1
    )
    gateway = Gateway({str(model.id): provider for model in plan.lock.models})
    with resources_aside(plan, "score", gateway, recording) as resources:
        scored: list[JobReproduction] = []
        with ThreadPoolExecutor(workers_for(plan, chosen), thread_name_prefix="score") as pool:
            try:
                for outcome in [pool.submit(_score_job, prepared, resources, p, of_scoring) for p in chosen]:
                    job = outcome.result()
                    if stop.cancelled or job is None:
                        raise Interrupted(f"interrupted; {len(scored)} of {len(chosen)} jobs had been scored")
                    scored.append(job)
            finally:
                of_scoring.cancel()
        return scored


def _score_job(
    prepared: Prepared, resources: RunResources, planned: PlannedJob, stop: Cancellation
) -> JobReproduction | None:
    """Score the states of one job; None if it was stopped before it began."""
    if stop.cancelled:
        return None
    recorded_row = prepared.recording.rows[planned.job_id]
    try:
        with Folder(prepared.recording.layout.root) as folder:
            job = prepared.recording.layout.job(planned.job_id)
            states = {kind: state for kind in STATES if (state := _state(folder, job, kind)) is not None}
            recorded = recorded_scores(recorded_row, _result(folder, job))
    except Unreadable as error:
        return prepared.verdict_on(planned, "not_replayed", why=str(error))
    if all(score.value is None for score in recorded):
        why = f"it has no scores to compare with: {recorded_row.failure_kind or recorded_row.status}"
        return prepared.verdict_on(planned, "not_replayed", why=why)
    plan = scoring_only(prepared.plan.prepare(planned), resources.layout.run_id, states)
    for _ in range(MAX_TRIES):
        row = Attempt(resources, plan, stop).run()
        if is_final(row) or stop.cancelled:
            break
    with Folder(resources.layout.root) as folder:
        return _compare(prepared, planned, _Scored(folder, resources.layout.job(planned.job_id), row), states, recorded)


def recorded_scores(row: Results, result: WorkerResult | None) -> list[Recorded]:
    """All official scores of a job: those of its row, and those of the scorer's result that the row lacks, or has with
    another value."""
    found = []
    places: tuple[tuple[StateKind, Split | None, float | None, Mapping[str, float]], ...] = (
        ("initial", None, row.score_initial, row.metrics_initial),
        ("final", None, row.score_final, row.metrics_final),
        ("best", None, row.score_best, row.metrics_best),
        ("best", "test", row.score_test, row.metrics_test),
    )
    for state, split, score, metrics in places:
        found.append(Recorded(state, split, SCORE, "results.json", score))
        found += [Recorded(state, split, _renamed(name), "results.json", value) for name, value in metrics.items()]
    if result is None or all(score.value is None for score in found):
        return found  # withheld scores are not read from the result
    known = {(score.state, score.split, score.metric): score.value for score in found}
    for state in STATES:
        scores: StateScores | None = getattr(result.scores, state)
        for split, metric, value in values_of(scores) if scores is not None else ():
            place = (state, None if scores is not None and split == scores.selection_split else split, metric)
            if place not in known or known[place] != value:
                found.append(Recorded(state, split, metric, "result.json", value))
    return found


def values_of(scores: StateScores) -> Iterator[tuple[Split, str, float]]:
    """The official scores of a state by split and metric, in natural units."""
    splits: tuple[tuple[Split, float | None], ...] = (
        ("train", scores.train), ("validate", scores.validate_), ("test", scores.test),
    )  # fmt: skip
    for split, value in splits:
        if value is not None:
            yield split, SCORE, value
    for split, metrics in scores.metrics.items():
        for name, value in metrics.items():
            yield split, _renamed(name), value


def _renamed(metric: str) -> str:
    return OWN_SCORE if metric == SCORE else metric


@dataclass(frozen=True)
class _Scored:
    """A job whose states were scored here."""

    folder: Folder
    files: JobLayout
    row: Results


def _compare(
    prepared: Prepared,
    planned: PlannedJob,
    scored: _Scored,
    states: Mapping[StateKind, State],
    recorded: Sequence[Recorded],
) -> JobReproduction:
    row = scored.row
    if row.status != "ok":
        why = f"scoring failed here at {row.failure_boundary} ({row.failure_kind}): {row.feedback}"
        return prepared.verdict_on(planned, "differs" if is_final(row) else "not_replayed", why=why)
    result = _result(scored.folder, scored.files)
    if result is None or result.stop_reason is not None:
        image = f"the image of {planned.job.image_family}"
        why = f"the worker in {image} cannot score states alone; build it from the recipe here, with --no-pull"
        return prepared.verdict_on(planned, "not_replayed", why=why)
    checks = tuple(_checks(prepared, planned, result, recorded))
    differences = tuple(_initial_differences(scored, states))
    verdicts: set[Verdict] = {check.verdict for check in checks}
    verdict: Verdict = "within" if "within" in verdicts else "equal"
    why = ""
    if "differs" in verdicts or differences:
        verdict = "differs"
    elif "not_replayed" in verdicts:
        verdict = "not_replayed"
        missing = next(check for check in checks if check.verdict == "not_replayed")
        why = f"its {missing.state} state was not scored: is artifacts/{missing.state}_state.yaml missing?"
        if missing.split == "test" and prepared.recording.salt is None:
            why = "the salt is not known, so that held-out data cannot be drawn again"
    return prepared.verdict_on(planned, verdict, why=why, scores=checks, differences=differences)


def _checks(
    prepared: Prepared, planned: PlannedJob, result: WorkerResult, recorded: Sequence[Recorded]
) -> Iterator[ScoreCheck]:
    tolerance = prepared.tolerance(planned)
    for score in recorded:
        scores: StateScores | None = getattr(result.scores, score.state)
        split: Split = score.split or (scores.selection_split if scores is not None else "validate")
        values = {} if scores is None else {(s, metric): value for s, metric, value in values_of(scores)}
        found = values.get((split, score.metric))
        if score.value is None and found is None:
            continue
        verdict: Verdict = "differs"
        if (split == "test" and prepared.recording.salt is None) or scores is None:
            verdict = "not_replayed"
        elif same(score.value, found, 0.0):
            verdict = "equal"
        elif same(score.value, found, tolerance):
            verdict = "within"
        yield ScoreCheck(
            state=score.state,
            split=split,
            metric=score.metric[:200],
            file="result.json" if score.file == "result.json" else "results.json",
            recorded=score.value,
            found=found,
            verdict=verdict,
        )


def _initial_differences(scored: _Scored, states: Mapping[StateKind, State]) -> Iterator[ReplayDifference]:
    """The recorded initial state is the one that the problem starts from when it is built here."""
    with suppress(Unreadable):
        built, recorded = _state(scored.folder, scored.files, "initial"), states.get("initial")
        if built is not None and recorded is not None and canonical(built) != canonical(recorded):
            texts = [dumps(value)[:_TEXT] for value in (recorded, built)]
            job_id = scored.files.job_id
            yield ReplayDifference(job_id=job_id, what="initial_state", recorded=texts[0], replayed=texts[1])


def _state(folder: Folder, job: JobLayout, kind: StateKind) -> State | None:
    """A saved state; None if there is none.

    Raises:
        Unreadable: it is not a state, or too large.
    """
    path: Path = {"initial": job.initial_state, "best": job.best_state, "final": job.final_state}[kind]
    name = path.relative_to(folder.root).as_posix()
    try:
        return folder.state(name)
    except Unreadable as error:
        raise Unreadable(f"{name}: {error}") from None


def _result(folder: Folder, job: JobLayout) -> WorkerResult | None:
    """The scorer's result of the last attempt; None if there is none.

    Raises:
        Unreadable: it is damaged.
    """
    meta = folder.model(JobMeta, job.meta.relative_to(folder.root).as_posix())
    if meta is None or not meta.attempts:
        return None
    path = job.attempt_out(meta.attempts[-1].number) / RESULT
    return folder.model(WorkerResult, path.relative_to(folder.root).as_posix())
