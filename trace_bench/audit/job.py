"""One job: its record, its row, its result, its calls and its history against each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.layout import RESULT, STATES, JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, Scores, States, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results, Usage
from trace_bench.audit import cassette, history, scores
from trace_bench.audit.claims import same
from trace_bench.audit.conduct import check_conduct
from trace_bench.audit.context import Audited
from trace_bench.audit.identity import check_identity
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.services import check_services
from trace_bench.errors import Boundary
from trace_bench.records.integrity import integrity_report, is_withheld
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import results_row
from trace_bench.secrets import MASK

M = TypeVar("M", bound=BaseModel)
_EXACT = frozenset(Results.model_fields) - {"time_seconds", "cost_usd"}
_OF_THE_HOST = frozenset({"sandbox_stopped", "not_recorded", "damaged_cassette", "interrupted"})
"""Kinds of failures that no sandbox says."""
_SHOWN_SCORES = ("score_initial", "score_final", "score_best", "score_test", "score_claimed", "hypervolume")


class JobAudit:
    """The checks of one job; `read` has the files that were checked against their schemas on the way."""

    def __init__(self, audited: Audited, job: JobLayout) -> None:
        self.run = audited
        self.book = audited.book
        self.job = job
        self.at = audited.path(job.root)
        self.read: set[str] = set()

    def check(self) -> None:
        meta = self._model(JobMeta, self._path(self.job.meta))
        row = self._model(Results, self._path(self.job.results))
        if row is not None:
            self.run.rows[self.job.job_id] = row
        self._check_place(meta, row)
        if meta is None:
            if row is not None:
                self.book.wrong("derivation.results", self._path(self.job.meta), was=None, due="the job's record")
            return
        self._check_attempt_rows(meta)
        calls = self._calls(meta)
        check_identity(self.run, meta, self._path(self.job.meta))
        check_conduct(self.run, meta, row, self._path(self.job.meta))
        if row is None or meta.job_id != self.job.job_id:
            return
        number = meta.attempts[-1].number if meta.attempts else 0
        out = self.job.attempt_out(number)
        result = self._model(WorkerResult, self._path(out / RESULT))
        states = self._model(States, self._path(out / STATES))
        self._check_row(meta, row, result, states, calls)

    def _check_row(
        self, meta: JobMeta, row: Results, result: WorkerResult | None, states: States | None, calls: cassette.Calls
    ) -> None:
        where = self._path(self.job.meta)
        cassette.check_usage(meta, calls, where, self.book)
        if check_services(self.run.folder, self._path(self.job.services), calls, self.book):
            self.read.add(self._path(self.job.services))
        course = self._history(meta, row, result, states, calls)
        front = self._front(meta, course)
        if scores.check_events(self.run.folder, self._path(self.job.events), result, self.book):
            self.read.add(self._path(self.job.events))
        number = meta.attempts[-1].number if meta.attempts else 0
        at = self._path(self.job.attempt_out(number) / RESULT)
        if result is not None:
            scores.check_scores(result, meta, at, self.book)
        self._check_record(meta, result, calls, at)
        usage = meta.usage if _is_late(meta) else calls.usage.model_copy(update={"refused": meta.usage.refused})
        if meta.failure is not None and meta.failure.kind == "damaged_cassette":
            usage = meta.usage
        self._check_columns(meta, row, result, usage, front)
        self._check_seconds(meta, row, result)

    # -- places --------------------------------------------------------------------------------------------------

    def _check_place(self, meta: JobMeta | None, row: Results | None) -> None:
        book = self.book
        if self.run.manifest is not None and self.job.job_id not in self.run.entries:
            for claim in ("files.places", "tables.manifest"):
                book.wrong(claim, self.at, was=self.job.job_id, due="a job of the manifest")
        for file, record in ((self.job.meta, meta), (self.job.results, row)):
            if record is not None:
                book.equal("files.places", self._path(file), "job_id", record.job_id, self.job.job_id)
                book.equal("files.places", self._path(file), "run_id", record.run_id, self.run.run_id)

    def _check_attempt_rows(self, meta: JobMeta) -> None:
        """Rows of earlier attempts: of this job, with the scores of their results."""
        for attempt, following in pairwise(meta.attempts):
            place = self.job.attempt(attempt.number) / self.job.results.name
            row = self._model(Results, self._path(place))
            if row is None:
                if self.run.folder.size(self._path(place)) is not None:
                    continue
                if attempt.sandbox_id and attempt.sandbox_id == following.sandbox_id:
                    # Its sandbox was adopted, which is removed once the row is there.
                    self.book.unknown("conduct.attempts", "a controller died before it wrote the row of an attempt")
                else:
                    key = f"attempts[{attempt.number}]"
                    self.book.wrong("conduct.attempts", self._path(place), key, None, "the row of an earlier attempt")
                continue
            path = self._path(place)
            self.book.equal("files.places", path, "job_id", row.job_id, self.job.job_id)
            self.book.equal("files.places", path, "run_id", row.run_id, self.run.run_id)
            self.book.equal("derivation.results", path, "status", row.status, _plain(attempt.status))
            result = self._model(WorkerResult, self._path(self.job.attempt_out(attempt.number) / RESULT))
            best = result.scores.best if result is not None else None
            if row.score_best is not None:
                due = best.selection if best is not None else None
                self.book.equal("derivation.results", path, "score_best", row.score_best, due)

    # -- what things come to -------------------------------------------------------------------------------------

    def _calls(self, meta: JobMeta) -> cassette.Calls:
        path = self._path(self.job.cassette)
        prices = self.run.lock.prices if self.run.lock is not None else {}
        calls = cassette.read_cassette(self.run.folder, path, self.book, meta=meta, prices=prices)
        self.read.add(path)
        last = max((attempt.number for attempt in meta.attempts), default=0)
        self._check_cached(meta, calls, path)
        if meta.status != "running" and calls.attempts > last:
            self.book.wrong("derivation.cassette", path, "attempt", calls.attempts, f"at most {last}")
        return calls

    def _check_cached(self, meta: JobMeta, calls: cassette.Calls, path: str) -> None:
        """Answers of the response cache cost nothing; that they are of it, only their author knows."""
        config = self.run.config
        if not calls.usage.cached or meta.mode == "replay":
            return
        # Another start of the run may have had another config in this.
        if config is not None and not config.llm_cache and len(self.run.journal.starts) == 1:
            self.book.wrong("derivation.prices", path, "cached", calls.usage.cached, "0, as llm_cache is false")
        else:
            self.book.unknown("derivation.prices", "whether answers are of the response cache no file can show")

    def _history(
        self,
        meta: JobMeta,
        row: Results,
        result: WorkerResult | None,
        states: States | None,
        calls: cassette.Calls,
    ) -> history.Course:
        path = self._path(self.job.state_history)
        saved = {}
        if states is not None:
            saved = {
                kind: state for kind in ("initial", "best", "final") if (state := getattr(states, kind)) is not None
            }
        course = history.read_history(self.run.folder, path, self.book, meta, saved)
        self.read.add(path)
        history.check_course(course, row, result, calls, meta, path, self.book)
        self.read.update(history.check_states(self.run.folder, self.job, self.at, states, result, self.book))
        history.check_saved(course, states, result, path, self.book)
        if result is not None:
            history.check_found(course, result, meta, path, self.book)
        return course

    def _front(self, meta: JobMeta, course: history.Course) -> ParetoFront | None:
        path = self._path(self.job.pareto)
        found = self._model(ParetoFront, path)
        if not course.whole:
            return found
        due = None
        if self.run.folder.size(self._path(self.job.state_history)) is not None:
            due = pareto_front(self.job.state_history, self.job.job_id, meta.objective)
        self.book.checked("derivation.pareto")
        if found is None or due is None:
            if found is not due:
                self.book.wrong("derivation.pareto", path, was=found and "a front", due=due and "a front")
            return due
        self.book.equal("files.places", path, "job_id", found.job_id, self.job.job_id)
        for name in ParetoFront.model_fields:
            was, there = getattr(found, name), getattr(due, name)
            if was != there:
                self.book.wrong("derivation.pareto", path, name, _dumped(was), _dumped(there))
        return due

    def _check_record(self, meta: JobMeta, result: WorkerResult | None, calls: cassette.Calls, at: str) -> None:
        """The end of the job as its record has it, against its last attempt."""
        path, claim, book = self._path(self.job.meta), "derivation.record", self.book
        if not meta.attempts:
            book.wrong(claim, path, "attempts", [], "an attempt")
            return
        last = meta.attempts[-1]
        book.equal(claim, path, "status", meta.status, _plain(last.status))
        book.equal(claim, path, "failure", _dumped(meta.failure), _dumped(last.failure))
        ok = meta.failure is None and result is not None and result.status == "ok"
        book.equal(claim, path, "status", meta.status, "ok" if ok else "failed")
        if result is not None:
            book.equal(claim, path, "stop_reason", meta.stop_reason, result.stop_reason)
            book.equal(claim, path, "stop_point", _dumped(meta.stop_point), _dumped(result.stop_point))
            self._check_failure(meta, result.failure, calls, at)
            missing = [w for w in result.warnings if w not in meta.warnings and MASK not in "".join(meta.warnings)]
            if missing:
                book.wrong(claim, path, "warnings", list(meta.warnings), missing)
            if last.evidence is not None and last.evidence.worker is not None:
                book.equal(claim, path, "evidence.worker", _dumped(last.evidence.worker), _dumped(result.evidence))
        self._check_report(meta, result, path)

    def _check_failure(self, meta: JobMeta, due: Failure | None, calls: cassette.Calls, at: str) -> None:
        """The record's failure is the sandbox's, but for what only the host can know."""
        was = meta.failure
        if was is None and due is None:
            return
        if was is None or due is None or (was.boundary, was.kind) != (due.boundary, due.kind):
            last = meta.attempts[-1]
            stranger = last.evidence is not None and bool(last.evidence.error)
            unanswered = was is not None and was.boundary is Boundary.PROVIDER and last.number in calls.unanswered
            if was is not None and (was.kind in _OF_THE_HOST or stranger or unanswered):
                return
            key = "failure: boundary, kind"
            told = [None if one is None else f"{one.boundary}: {one.kind}" for one in (was, due)]
            self.book.wrong("derivation.record", self._path(self.job.meta), key, *told)

    def _check_report(self, meta: JobMeta, result: WorkerResult | None, path: str) -> None:
        if result is not None and meta.failure is not None and meta.failure.kind == "not_recorded":
            result = result.model_copy(update={"scores": Scores()})
        scoring = meta.usage_by_phase.get("score", Usage())
        asked = bool(scoring.calls or scoring.reused or scoring.refused)
        comparable = not (meta.timing_sensitive or asked)
        due = integrity_report(result, meta.tolerance, comparable=comparable)
        for name in type(due).model_fields:
            was, there = getattr(meta.integrity_report, name), getattr(due, name)
            self.book.equal("derivation.integrity", path, f"integrity_report.{name}", _dumped(was), _dumped(there))

    # -- the row -------------------------------------------------------------------------------------------------

    def _check_columns(
        self,
        meta: JobMeta,
        row: Results,
        result: WorkerResult | None,
        usage: Usage,
        front: ParetoFront | None,
    ) -> None:
        path, claim = self._path(self.job.results), "derivation.results"
        if meta.status not in ("ok", "failed", "skipped"):
            self.book.wrong(claim, path, "status", row.status, meta.status)
            return
        due = results_row(meta, result, usage, row.time_seconds, self._layout, front)
        for name in (name for name in Results.model_fields if name in _EXACT):
            self.book.checked(claim)
            was, there = getattr(row, name), getattr(due, name)
            if not same(_dumped(was), _dumped(there)):
                self.book.wrong(claim, path, name, _dumped(was), _dumped(there))
        self.book.checked(claim)
        if abs(row.cost_usd - due.cost_usd) > 1e-12 * max(1.0, due.cost_usd):
            self.book.wrong(claim, path, "cost_usd", row.cost_usd, due.cost_usd)
        self._check_marks(row, meta, result, path)

    def _check_marks(self, row: Results, meta: JobMeta, result: WorkerResult | None, path: str) -> None:
        flags = integrity_report(result, meta.tolerance, comparable=False).flags
        self.book.checked("integrity.flags")
        missing = sorted(set(flags) - set(row.integrity_flags.split()))
        if missing:
            self.book.wrong("integrity.flags", path, "integrity_flags", row.integrity_flags, missing)
        self.book.checked("integrity.withheld")
        if is_withheld(meta.failure, meta.integrity_report) or "scorer_changed" in flags:
            for name in _SHOWN_SCORES:
                if getattr(row, name) is not None:
                    self.book.wrong("integrity.withheld", path, name, getattr(row, name), None)

    def _check_seconds(self, meta: JobMeta, row: Results, result: WorkerResult | None) -> None:
        """The job's time lies between what its phases took and what the controller was at work for it."""
        seconds, path = row.time_seconds, self._path(self.job.results)
        course = self.run.journal.jobs.get(self.job.job_id)
        self.book.checked("derivation.seconds")
        if seconds is None:
            return
        adopted = course is not None and (course.adopted or course.starts != course.ends)
        least = max(result.seconds.values(), default=0.0) if result is not None else 0.0  # phases overlap
        if not adopted and seconds + 1.0 < least:
            self.book.wrong("derivation.seconds", path, "time_seconds", seconds, f"at least {least}")
        if course is None or course.started is None or course.ended is None:
            return
        if seconds > course.ended - course.started + 1.0:
            most = round(course.ended - course.started, 3)
            self.book.wrong("derivation.seconds", path, "time_seconds", seconds, f"at most {most}")

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def _layout(self) -> RunLayout:
        return self.run.layout

    def _path(self, path: object) -> str:
        return self.run.path(path)

    def _model(self, model: type[M], path: str) -> M | None:
        """A file that is checked against its schema; None if it is not there, or does not fit."""
        self.book.checked("files.schemas")
        self.read.add(path)
        try:
            return self.run.folder.model(model, path)
        except Unreadable as error:
            self.book.wrong("files.schemas", path, was=str(error), due=model.__name__)
            return None


def check_job(audited: Audited, job: JobLayout) -> frozenset[str]:
    """Check one job; returns the files that were checked against their schemas on the way."""
    checks = JobAudit(audited, job)
    checks.check()
    return frozenset(checks.read)


def _plain(status: str) -> str:
    """The status of a job whose last attempt ended so."""
    return "failed" if status == "interrupted" else status


def _is_late(meta: JobMeta) -> bool:
    return any("under way when the job ended" in warning for warning in meta.warnings)


def _dumped(value: object) -> object:
    """`value` as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _dumped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_dumped(item) for item in value]
    return value
