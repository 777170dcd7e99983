"""Checks one job: its record, row, result, calls and history against each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.layout import RESULT, STATES, JobLayout
from trace_bench.artifacts.outputs import Failure, Scores, States, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.audit import cassette, history, scores
from trace_bench.audit.claims import Findings
from trace_bench.audit.conduct import check_conduct, check_journal_of
from trace_bench.audit.plan import check_planned
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun
from trace_bench.errors import Boundary
from trace_bench.records.derivation import derive_row
from trace_bench.records.gaps import problem_of
from trace_bench.records.integrity import integrity_report, is_withheld, job_integrity
from trace_bench.records.pareto import pareto_front
from trace_bench.secrets import MASK

PLACES, RECORD, RESULTS = "files.places", "derivation.record", "derivation.results"
PARETO, PRICES, SECONDS = "derivation.pareto", "derivation.prices", "derivation.seconds"
M = TypeVar("M", bound=BaseModel)
_NOT_EXACT = frozenset({"time_seconds", "cost_usd"})
_HOST_FAILURES = frozenset({"sandbox_stopped", "not_recorded", "damaged_cassette", "interrupted"})
"""Kinds of failures that the host records and no sandbox reports."""
_SCORES = ("score_initial", "score_final", "score_best", "score_test", "score_claimed", "hypervolume")


def check_job(run: AuditedRun, layout: JobLayout) -> set[str]:
    """Check one job; returns the files whose schemas were checked on the way."""
    job = AuditedJob(run, layout)
    row = job.model(Results, layout.results)
    if row is not None:
        run.rows[layout.job_id] = row
    if run.manifest is not None and layout.job_id not in run.entries:
        for claim in (PLACES, "tables.manifest"):
            run.at(layout.root).wrong(claim, found=layout.job_id, expected="a job of the manifest")
    if job.record is not None:
        job.check_ids(layout.meta, job.record)
    if row is not None:
        job.check_ids(layout.results, row)
    if job.record is None:
        if row is not None:
            job.at_meta.wrong(RESULTS, found=None, expected="the job's record")
        return job.read
    _check_attempt_rows(job)
    _check_calls(job)
    check_planned(run, job.meta, job.at_meta)
    check_conduct(run, job.meta, row, job.at_meta)
    if row is not None:
        check_journal_of(run, row)
        if job.meta.job_id == layout.job_id:
            _check_row(job, row)
    return job.read


@dataclass
class AuditedJob:
    """One job under audit. Each of its files is read once, and checked while it is read.

    Attributes:
        read: files whose schemas were checked.
    """

    run: AuditedRun
    layout: JobLayout
    read: set[str] = field(default_factory=set)

    @cached_property
    def record(self) -> JobMeta | None:
        return self.model(JobMeta, self.layout.meta)

    @property
    def meta(self) -> JobMeta:
        """The record of a job that has one."""
        assert self.record is not None
        return self.record

    @cached_property
    def result(self) -> WorkerResult | None:
        return self.model(WorkerResult, self.last_out / RESULT)

    @cached_property
    def states(self) -> States | None:
        return self.model(States, self.last_out / STATES)

    @cached_property
    def calls(self) -> cassette.Calls:
        prices = self.run.lock.prices if self.run.lock is not None else {}
        models = [self.run.config.llm, *self.run.config.llms] if self.run.config is not None else []
        own = any(llm is not None and llm.name == self.meta.model.id and llm.prices is not None for llm in models)
        return cassette.read_cassette(self.run.folder, self.at(self.layout.cassette), self.meta, prices, own)

    @cached_property
    def history(self) -> history.History:
        saved = {k: s for k in scores.KINDS if self.states is not None and (s := getattr(self.states, k)) is not None}
        return history.read_history(self.run.folder, self.at(self.layout.state_history), self.meta, saved)

    @cached_property
    def front(self) -> ParetoFront | None:
        """The front that follows from the history; the one of the file if the history is damaged."""
        if not self.history.whole:
            return self.model(ParetoFront, self.layout.pareto)
        if self.run.folder.size(self.run.path(self.layout.state_history)) is None:
            return None
        return pareto_front(self.layout.state_history, self.layout.job_id, self.meta.objective)

    @property
    def last_out(self) -> Path:
        """What the sandbox of the last attempt returned."""
        return self.layout.attempt_out(self.meta.attempts[-1].number if self.meta.attempts else 0)

    @property
    def at_meta(self) -> Findings:
        return self.run.at(self.layout.meta)

    def at(self, path: Path) -> Findings:
        """The findings on a file whose schema is checked while it is read."""
        self.read.add(self.run.path(path))
        return self.run.at(path)

    def model(self, model: type[M], path: Path) -> M | None:
        """A file that is checked against its schema; None if it does not exist or does not fit."""
        at = self.at(path)
        at.checked("files.schemas")
        try:
            return self.run.folder.model(model, at.file)
        except Unreadable as error:
            at.wrong("files.schemas", found=str(error), expected=model.__name__)
            return None

    def check_ids(self, path: Path, record: JobMeta | Results) -> None:
        self.run.at(path).equal(PLACES, "job_id", record.job_id, self.layout.job_id)
        self.run.at(path).equal(PLACES, "run_id", record.run_id, self.run.run_id)


# ------------------------------------------------------------------------------------------------ attempts and calls


def _check_attempt_rows(job: AuditedJob) -> None:
    """Each earlier attempt has a row of this job, with the score of its result."""
    claim = "conduct.attempts"
    for attempt, following in pairwise(job.meta.attempts):
        path = job.layout.attempt(attempt.number) / job.layout.results.name
        at, row = job.run.at(path), job.model(Results, path)
        if row is not None:
            job.check_ids(path, row)
            at.equal(RESULTS, "status", row.status, _status_after(attempt.status))
            result = job.model(WorkerResult, job.layout.attempt_out(attempt.number) / RESULT)
            best = result.scores.best if result is not None else None
            if row.score_best is not None:
                at.equal(RESULTS, "score_best", row.score_best, best.selection if best is not None else None)
        elif job.run.folder.size(at.file) is not None:
            continue
        elif attempt.sandbox_id and attempt.sandbox_id == following.sandbox_id:
            # The next attempt adopted its sandbox. Otherwise the sandbox is removed once the row is written.
            at.unknown(claim, "a controller was killed before it wrote the row of an attempt")
        else:
            at.wrong(claim, f"attempts[{attempt.number}]", None, "the row of an earlier attempt")


def _check_calls(job: AuditedJob) -> None:
    """Calls belong to attempts of the job. Whether an answer came from the response cache, its author alone knows."""
    at, calls, meta, config = job.run.at(job.layout.cassette), job.calls, job.meta, job.run.config
    last = max((attempt.number for attempt in meta.attempts), default=0)
    if meta.status != "running" and calls.attempts > last:
        at.wrong("derivation.cassette", "attempt", calls.attempts, f"at most {last}")
    if not calls.usage.cached or meta.mode == "replay":
        return
    # Another start of the run can have had another value of llm_cache.
    if config is not None and not config.llm_cache and len(job.run.journal.starts) == 1:
        at.wrong(PRICES, "cached", calls.usage.cached, "0, as llm_cache is false")
    else:
        at.unknown(PRICES, "no file shows whether an answer came from the response cache")


# ------------------------------------------------------------------------------------------ a job that has a row


def _check_row(job: AuditedJob, row: Results) -> None:
    """Derive the job again from what its sandbox returned, and compare."""
    run, layout, meta, result = job.run, job.layout, job.meta, job.result
    cassette.check_usage(meta, job.calls, job.at_meta)
    cassette.check_services(run.folder, job.at(layout.services), job.calls)
    for kind, path in zip(scores.KINDS, (layout.initial_state, layout.best_state, layout.final_state), strict=True):
        expected = getattr(job.states, kind) if job.states is not None else None
        history.check_state_file(run.folder, job.at(path), expected)
    scores.check_events(run.folder, job.at(layout.events), result)
    if result is not None:
        at = run.at(layout.state_history)
        history.check_history(job.history, job.states, row, result, job.calls, meta, at)
        scores.check_scores(result, meta.objective, run.at(job.last_out / RESULT))
    _check_front(job)
    _check_record(job)
    _check_integrity(job, row)
    _check_columns(job, row)
    _check_yardstick(job, row)
    _check_seconds(job, row)


def _check_front(job: AuditedJob) -> None:
    if not job.history.whole:
        return
    at, found, expected = job.run.at(job.layout.pareto), job.model(ParetoFront, job.layout.pareto), job.front
    at.checked(PARETO)
    if found is not None and expected is not None:
        at.equal(PLACES, "job_id", found.job_id, job.layout.job_id)
        at.equal_fields(PARETO, "", found, expected, ParetoFront.model_fields)
    elif found is not expected:
        at.wrong(PARETO, found=found and "a front", expected=expected and "a front")


def _check_record(job: AuditedJob) -> None:
    """The outcome in the record is that of the last attempt and of its result."""
    at, meta, result = job.at_meta, job.meta, job.result
    if not meta.attempts:
        at.wrong(RECORD, "attempts", [], "an attempt")
        return
    last = meta.attempts[-1]
    at.equal(RECORD, "status", meta.status, _status_after(last.status))
    at.equal(RECORD, "failure", meta.failure, last.failure)
    ok = meta.failure is None and result is not None and result.status == "ok"
    at.equal(RECORD, "status", meta.status, "ok" if ok else "failed")
    if result is None:
        return
    at.equal_fields(RECORD, "", meta, result, ("stop_reason", "stop_point"))
    _check_failure(job, meta.failure, result.failure)
    missing = [w for w in result.warnings if w not in meta.warnings and MASK not in "".join(meta.warnings)]
    if missing:
        at.wrong(RECORD, "warnings", list(meta.warnings), missing)
    if last.evidence is not None and last.evidence.worker is not None:
        at.equal(RECORD, "evidence.worker", last.evidence.worker, result.evidence)


def _check_failure(job: AuditedJob, found: Failure | None, expected: Failure | None) -> None:
    """The failure in the record is the one that the sandbox reported, unless only the host can know of it."""
    names = [None if failure is None else f"{failure.boundary}: {failure.kind}" for failure in (found, expected)]
    if names[0] == names[1]:
        return
    if found is not None:
        last = job.meta.attempts[-1]
        sandbox_error = last.evidence is not None and bool(last.evidence.error)
        unanswered = found.boundary is Boundary.PROVIDER and last.number in job.calls.unanswered
        if found.kind in _HOST_FAILURES or sandbox_error or unanswered:
            return
    job.at_meta.wrong(RECORD, "failure: boundary, kind", *names)


def _check_integrity(job: AuditedJob, row: Results) -> None:
    meta, result, at = job.meta, job.result, job.run.at(job.layout.results)
    if meta.status in ("ok", "failed", "skipped"):
        flags = integrity_report(result, meta.tolerance, comparable=False).flags
        missing = sorted(set(flags) - set(row.integrity_flags.split()))
        at.check(not missing, "integrity.flags", "integrity_flags", row.integrity_flags, missing)
        at.checked("integrity.withheld")
        if is_withheld(meta.failure, meta.integrity_report) or "scorer_changed" in flags:
            for name in _SCORES:
                at.equal("integrity.withheld", name, getattr(row, name), None)
    if not meta.attempts:
        return
    if result is not None and meta.failure is not None and meta.failure.kind == "not_recorded":
        result = result.model_copy(update={"scores": Scores()})
    expected, claim = job_integrity(result, meta, meta.usage_by_phase), "derivation.integrity"
    fields = type(expected).model_fields
    job.at_meta.equal_fields(claim, "integrity_report.", meta.integrity_report, expected, fields)


def _check_columns(job: AuditedJob, row: Results) -> None:
    """The row follows from record, result, calls and history."""
    at, meta = job.run.at(job.layout.results), job.meta
    if meta.status not in ("ok", "failed", "skipped"):
        at.wrong(RESULTS, "status", row.status, meta.status)
        return
    # The record does not count calls that ended after the job, and the cassette not all refused calls.
    usage = job.calls.usage.model_copy(update={"refused": meta.usage.refused})
    damaged = meta.failure is not None and meta.failure.kind == "damaged_cassette"
    if damaged or any("under way when the job ended" in warning for warning in meta.warnings):
        usage = meta.usage
    expected = derive_row(job.run.layout, meta, job.result, usage, row.time_seconds, job.front, job.run.gaps)
    at.equal_fields(RESULTS, "", row, expected, (name for name in Results.model_fields if name not in _NOT_EXACT))
    close = abs(row.cost_usd - expected.cost_usd) <= 1e-12 * max(1.0, expected.cost_usd)
    at.check(close, RESULTS, "cost_usd", row.cost_usd, expected.cost_usd)


def _check_yardstick(job: AuditedJob, row: Results) -> None:
    """What the gap is measured by has the best known scores that the sandbox recorded, of each instance."""
    yardstick, result = job.run.gaps.yardsticks.get(problem_of(row)), job.result
    initial = result.scores.initial if result is not None else None
    if yardstick is None or initial is None:
        return
    at, place = job.run.at(job.run.layout.yardsticks), f"{row.task_id}, seed {row.seed}"
    at.equal("derivation.scores", f"{place}: direction", yardstick.direction, row.score_direction)
    for one in initial.examples:
        known = yardstick.best_known.get(one.split, {}).get(one.id)
        at.equal("derivation.scores", f"{place}: best_known of {one.id}", known, one.best_known)


def _check_seconds(job: AuditedJob, row: Results) -> None:
    """The time of the job is at least that of its longest phase, and at most that between its start and end in the
    journal."""
    at, seconds = job.run.at(job.layout.results), row.time_seconds
    events = job.run.journal.jobs.get(row.job_id)
    at.checked(SECONDS)
    if seconds is None:
        return
    adopted = events is not None and (events.adopted or events.starts != events.ends)
    least = max(job.result.seconds.values(), default=0.0) if job.result is not None else 0.0  # phases overlap
    if not adopted and seconds + 1.0 < least:
        at.wrong(SECONDS, "time_seconds", seconds, f"at least {least}")
    if events is not None and events.started is not None and events.ended is not None:
        most = events.ended - events.started
        if seconds > most + 1.0:
            at.wrong(SECONDS, "time_seconds", seconds, f"at most {round(most, 3)}")


def _status_after(attempt: str) -> str:
    """The status of a job whose last attempt has the status `attempt`."""
    return "failed" if attempt == "interrupted" else attempt
