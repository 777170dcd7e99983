"""Checks one job: its record, row, result, calls and history against each other."""

from __future__ import annotations

from collections.abc import Callable
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
from trace_bench.audit.claims import Findings, same
from trace_bench.audit.conduct import CONDUCT_CHECKS, check_journal_of
from trace_bench.audit.identity import check_job_identity
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun, as_json
from trace_bench.audit.services import check_services
from trace_bench.errors import Boundary
from trace_bench.records.gaps import problem_of
from trace_bench.records.integrity import integrity_report, is_withheld, job_integrity
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import results_row
from trace_bench.secrets import MASK

INTEGRITY, PLACES, RECORD, RESULTS = "derivation.integrity", "files.places", "derivation.record", "derivation.results"
PARETO, PRICES, SECONDS = "derivation.pareto", "derivation.prices", "derivation.seconds"
M = TypeVar("M", bound=BaseModel)
_NOT_EXACT = frozenset({"time_seconds", "cost_usd"})
_HOST_FAILURES = frozenset({"sandbox_stopped", "not_recorded", "damaged_cassette", "interrupted"})
"""Kinds of failures that the host records and no sandbox reports."""
_SCORES = ("score_initial", "score_final", "score_best", "score_test", "score_claimed", "hypervolume")


def check_job(run: AuditedRun, layout: JobLayout) -> frozenset[str]:
    """Check one job; returns the files whose schemas were checked on the way."""
    job = AuditedJob(run, layout)
    row = job.model(Results, layout.results)
    if row is not None:
        run.rows[layout.job_id] = row
    _check_places(job, row)
    if job.record is None:
        if row is not None:
            job.at_meta.wrong(RESULTS, found=None, expected="the job's record")
        return frozenset(job.read)
    _check_attempt_rows(job)
    _check_calls(job)
    check_job_identity(run, job.meta, job.at_meta)
    for check in CONDUCT_CHECKS:
        check(run, job.meta, row, job.at_meta)
    if row is not None:
        check_journal_of(run, row)
        if job.meta.job_id == layout.job_id:
            for check_row in ROW_CHECKS:
                check_row(job, row)
    return frozenset(job.read)


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
        self.mark_read(self.layout.cassette)
        prices = self.run.lock.prices if self.run.lock is not None else {}
        models = [self.run.config.llm, *self.run.config.llms] if self.run.config is not None else []
        own = any(llm is not None and llm.name == self.meta.model.id and llm.prices is not None for llm in models)
        return cassette.read_cassette(self.run.folder, self.run.at(self.layout.cassette), self.meta, prices, own)

    @cached_property
    def history(self) -> history.History:
        self.mark_read(self.layout.state_history)
        kinds = ("initial", "best", "final")
        saved = {k: state for k in kinds if self.states is not None and (state := getattr(self.states, k)) is not None}
        return history.read_history(self.run.folder, self.run.at(self.layout.state_history), self.meta, saved)

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

    @property
    def at_row(self) -> Findings:
        return self.run.at(self.layout.results)

    @property
    def has_ended(self) -> bool:
        return self.meta.status in ("ok", "failed", "skipped")

    def mark_read(self, path: Path) -> None:
        self.read.add(self.run.path(path))

    def model(self, model: type[M], path: Path) -> M | None:
        """A file that is checked against its schema; None if it does not exist or does not fit."""
        self.mark_read(path)
        at = self.run.at(path)
        at.checked("files.schemas")
        try:
            return self.run.folder.model(model, at.file)
        except Unreadable as error:
            at.wrong("files.schemas", found=str(error), expected=model.__name__)
            return None

    def check_ids(self, path: Path, record: JobMeta | Results) -> None:
        self.run.at(path).equal(PLACES, "job_id", record.job_id, self.layout.job_id)
        self.run.at(path).equal(PLACES, "run_id", record.run_id, self.run.run_id)


def _check_places(job: AuditedJob, row: Results | None) -> None:
    job_id = job.layout.job_id
    if job.run.manifest is not None and job_id not in job.run.entries:
        for claim in (PLACES, "tables.manifest"):
            job.run.at(job.layout.root).wrong(claim, found=job_id, expected="a job of the manifest")
    for path, record in ((job.layout.meta, job.record), (job.layout.results, row)):
        if record is not None:
            job.check_ids(path, record)


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


# --------------------------------------------------------------------------------------------- checks of ended jobs


def _check_usage(job: AuditedJob, row: Results) -> None:
    cassette.check_usage(job.meta, job.calls, job.at_meta)
    if check_services(job.run.folder, job.run.at(job.layout.services), job.calls):
        job.mark_read(job.layout.services)


def _check_history(job: AuditedJob, row: Results) -> None:
    at, result, layout = job.run.at(job.layout.state_history), job.result, job.layout
    for kind, path in (("initial", layout.initial_state), ("best", layout.best_state), ("final", layout.final_state)):
        expected = getattr(job.states, kind) if job.states is not None else None
        if history.check_state_file(job.run.folder, job.run.at(path), expected):
            job.mark_read(path)
    if result is not None:
        history.check_spent(job.history, row, result, job.calls, job.meta, at)
        history.check_saved(job.history, job.states, result, at)
        history.check_seen_scores(job.history, result, job.meta, at)


def _check_front(job: AuditedJob, row: Results) -> None:
    path = job.layout.pareto
    if not job.history.whole:
        return
    at, found, expected = job.run.at(path), job.model(ParetoFront, path), job.front
    at.checked(PARETO)
    if found is None or expected is None:
        if found is not expected:
            at.wrong(PARETO, found=found and "a front", expected=expected and "a front")
        return
    at.equal(PLACES, "job_id", found.job_id, job.layout.job_id)
    for name in ParetoFront.model_fields:
        one, other = getattr(found, name), getattr(expected, name)
        if one != other:
            at.wrong(PARETO, name, as_json(one), as_json(other))


def _check_scores(job: AuditedJob, row: Results) -> None:
    if scores.check_events(job.run.folder, job.run.at(job.layout.events), job.result):
        job.mark_read(job.layout.events)
    if job.result is not None:
        scores.check_scores(job.result, job.meta.objective, job.run.at(job.last_out / RESULT))


def _check_record(job: AuditedJob, row: Results) -> None:
    """The outcome in the record is that of the last attempt and of its result."""
    at, meta, result = job.at_meta, job.meta, job.result
    if not meta.attempts:
        at.wrong(RECORD, "attempts", [], "an attempt")
        return
    last = meta.attempts[-1]
    at.equal(RECORD, "status", meta.status, _status_after(last.status))
    at.equal(RECORD, "failure", as_json(meta.failure), as_json(last.failure))
    ok = meta.failure is None and result is not None and result.status == "ok"
    at.equal(RECORD, "status", meta.status, "ok" if ok else "failed")
    if result is None:
        return
    at.equal(RECORD, "stop_reason", meta.stop_reason, result.stop_reason)
    at.equal(RECORD, "stop_point", as_json(meta.stop_point), as_json(result.stop_point))
    _check_failure(job, meta.failure, result.failure)
    missing = [w for w in result.warnings if w not in meta.warnings and MASK not in "".join(meta.warnings)]
    if missing:
        at.wrong(RECORD, "warnings", list(meta.warnings), missing)
    if last.evidence is not None and last.evidence.worker is not None:
        at.equal(RECORD, "evidence.worker", as_json(last.evidence.worker), as_json(result.evidence))


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
    meta, result = job.meta, job.result
    if job.has_ended:
        at, flags = job.at_row, integrity_report(result, meta.tolerance, comparable=False).flags
        missing = sorted(set(flags) - set(row.integrity_flags.split()))
        at.check(not missing, "integrity.flags", "integrity_flags", row.integrity_flags, missing)
        at.checked("integrity.withheld")
        if is_withheld(meta.failure, meta.integrity_report) or "scorer_changed" in flags:
            for name in _SCORES:
                if getattr(row, name) is not None:
                    at.wrong("integrity.withheld", name, getattr(row, name), None)
    if not meta.attempts:
        return
    if result is not None and meta.failure is not None and meta.failure.kind == "not_recorded":
        result = result.model_copy(update={"scores": Scores()})
    expected = job_integrity(result, meta, meta.usage_by_phase)
    for name in type(expected).model_fields:
        one, other = getattr(meta.integrity_report, name), getattr(expected, name)
        job.at_meta.equal(INTEGRITY, f"integrity_report.{name}", as_json(one), as_json(other))


def _check_columns(job: AuditedJob, row: Results) -> None:
    """The row follows from record, result, calls and history."""
    at, meta = job.at_row, job.meta
    if not job.has_ended:
        at.wrong(RESULTS, "status", row.status, meta.status)
        return
    # The record does not count calls that ended after the job, and the cassette not all refused calls.
    usage = job.calls.usage.model_copy(update={"refused": meta.usage.refused})
    damaged = meta.failure is not None and meta.failure.kind == "damaged_cassette"
    if damaged or any("under way when the job ended" in warning for warning in meta.warnings):
        usage = meta.usage
    expected = results_row(meta, job.result, usage, row.time_seconds, job.run.layout, job.front)
    expected = job.run.gaps.put(expected, job.result)
    for name in (name for name in Results.model_fields if name not in _NOT_EXACT):
        one, other = as_json(getattr(row, name)), as_json(getattr(expected, name))
        at.check(same(one, other), RESULTS, name, one, other)
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
    at, seconds, events = job.at_row, row.time_seconds, job.run.journal.jobs.get(row.job_id)
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


ROW_CHECKS: tuple[Callable[[AuditedJob, Results], None], ...] = (
    _check_usage, _check_history, _check_front, _check_scores, _check_record, _check_integrity, _check_columns,
    _check_yardstick, _check_seconds,
)  # fmt: skip
"""The checks of a job that has a record and a row."""


def _status_after(attempt: str) -> str:
    """The status of a job whose last attempt has the status `attempt`."""
    return "failed" if attempt == "interrupted" else attempt
