"""How jobs were run: controls, limits, budgets, seeds, times, and the journal that tells of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.audit.context import Audited
from trace_bench.audit.reading import Unreadable
from trace_bench.errors import TraceBenchError
from trace_bench.identity import salt_commitment, seed_commitment, test_seed
from trace_bench.planning.prepare import Material, prepare
from trace_bench.records.rows import is_final, was_cut
from trace_bench.sandbox.base import CONTROLS, NEVER_WEAKER

_SLACK = 2.0
"""Seconds that times of one clock, rounded, may be off."""
_SECONDS_GRACE = 60.0
"""Of training, beyond its budget of seconds: until a trainer looks whether it is to stop, or is killed."""
_ENDING = "status, failure_kind, stop_reason"
_PLANNED = (
    "score_direction", "tolerance", "timing_sensitive", "variant", "raw_params", "params", "optimizer", "guide",
    "guide_kwargs", "logger", "mode", "model", "limits", "objective", "eval_kwargs", "trainer_id", "suite", "task_id",
)  # fmt: skip
"""What a job's record has from the config and its task."""


class _Backend:
    """What `prepare` asks of a backend."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.integrity = "unprotected" if name == "local" else "protected"


def check_conduct(audited: Audited, meta: JobMeta, row: Results | None, path: str) -> None:
    """One job."""
    _check_controls(audited, meta, path)
    _check_plan(audited, meta, path)
    _check_spent(audited, meta, row, path)
    _check_times(audited, meta, path)
    if row is not None:
        _check_course(audited, row)
    _check_seed(audited, meta, path)


def _check_controls(audited: Audited, meta: JobMeta, path: str) -> None:
    book = audited.book
    book.checked("conduct.controls")
    if meta.backend == "local" and meta.integrity != "unprotected":
        book.wrong("conduct.controls", path, "integrity", meta.integrity, "unprotected: backend local protects nothing")
    if audited.env is not None:
        named = audited.env.backend.get("backend", audited.env.backend.get("name", meta.backend))
        book.equal("conduct.controls", path, "backend", meta.backend, named)
    _check_hosts(audited, meta, path)
    if not meta.controls:
        if meta.status == "ok":
            book.wrong("conduct.controls", path, "controls", None, "what was in force")
        return
    found = {control.name: control for control in meta.controls}
    if len(found) < len(meta.controls):
        book.wrong("conduct.controls", path, "controls", "one twice", "each once")
    sandbox = audited.config.sandbox if audited.config is not None else None
    job = audited.expanded.get(meta.job_id)
    if job is not None:
        sandbox = job.sandbox
    required = set(sandbox.require_controls) if sandbox is not None else set()
    if meta.backend != "local":
        required |= NEVER_WEAKER
    for name in CONTROLS:
        control = found.get(name)
        if control is None and audited.is_of_this_code:
            book.wrong("conduct.controls", path, name, None, "what is in force of it")
        elif control is not None and control.in_force and meta.backend == "local":
            book.wrong("conduct.controls", path, name, "in force", "not in force: backend local has no sandbox")
        elif name in required and (control is None or not control.in_force):
            book.wrong("conduct.controls", path, name, control.detail if control else None, "in force")
        elif control is not None and not control.in_force and meta.backend != "local":
            weaker = set(sandbox.allow_weaker) if sandbox is not None else set()
            why = "given up by the config" if name in weaker else "the backend could not set it"
            book.remark("conduct.controls", f"{name} was not in force for some jobs: {why}")


def _check_hosts(audited: Audited, meta: JobMeta, path: str) -> None:
    """The job was where its last attempt was, and attempts were on hosts that ``env.json`` describes: those of the
    last controller, as it describes no other one's."""
    book = audited.book
    if meta.attempts:
        book.equal("conduct.controls", path, "host", meta.host, meta.attempts[-1].host)
    if audited.env is None:
        return
    hosts = list(audited.env.backend.get("hosts") or ())
    last = _stamp(audited.journal.starts[-1]) if audited.journal.starts else None
    for attempt in meta.attempts:
        began = _stamp(attempt.started_at)
        if attempt.host is None or attempt.host in hosts:
            continue
        if last is None or began is None or began < last - _SLACK:
            book.unknown("conduct.controls", "env.json does not describe the hosts of an earlier controller")
        else:
            due = ", ".join(map(str, hosts)) or None
            book.wrong("conduct.controls", path, f"attempts[{attempt.number}].host", attempt.host, due)


def _check_plan(audited: Audited, meta: JobMeta, path: str) -> None:
    """The record against the one that the config would give."""
    book, config = audited.book, audited.config
    if config is not None:
        due = Budget(**config.budget.model_dump(exclude={"run"}))
        book.equal("conduct.limits", path, "budget", meta.budget.model_dump(), due.model_dump())
        book.checked("conduct.seeds")
        if meta.seed not in config.seeds:
            book.wrong("conduct.seeds", path, "seed", meta.seed, list(config.seeds))
    job = audited.expanded.get(meta.job_id)
    task = audited.tasks.get(meta.task_id)
    if job is None or task is None or config is None or meta.image is None:
        book.unknown("conduct.limits", audited.not_expanded or audited.why_differs() or "a job is not of the config")
        return
    # Nothing of it depends on the seed, and the jobs of a variant share what it is made of.
    way = (id(job.params), id(job.model), id(job.eval_kwargs), job.task_id, job.trainer_id, meta.backend)
    planned = audited.planned.get(way)
    try:
        if planned is None:
            made = prepare(
                job,
                Material(task, b""),
                meta.image,
                meta.fingerprint,
                config=config,
                run_id=meta.run_id,
                salt="",
                backend=_Backend(meta.backend),  # type: ignore[arg-type]
                created=meta.created_at,
            ).meta
            planned = audited.planned[way] = {name: _dumped(getattr(made, name)) for name in (*_PLANNED, "integrity")}
    except (TraceBenchError, OSError) as error:
        book.unknown("conduct.limits", f"a job cannot be planned here: {error}")
        return
    for name, there in planned.items():
        was = _dumped(getattr(meta, name))
        claim = "conduct.controls" if name == "integrity" else "conduct.limits"
        book.checked(claim)
        if was == there:
            continue
        if why := audited.why_differs(meta.task_id):
            book.unknown(claim, why)
        else:
            book.wrong(claim, path, name, was, there)


def _check_spent(audited: Audited, meta: JobMeta, row: Results | None, path: str) -> None:
    if row is None:
        return
    book = audited.book
    for name, spent in (("evaluations", row.evaluations), ("calls", row.llm_calls)):
        limit = getattr(meta.budget, name)
        if limit is not None:
            book.checked("conduct.budgets")
            if spent > limit:
                book.wrong("conduct.budgets", path, name, spent, f"at most {limit}")
    if meta.budget.seconds is not None and row.train_seconds is not None and meta.mode != "replay":
        book.checked("conduct.budgets")
        if row.train_seconds > meta.budget.seconds + _SECONDS_GRACE and row.stop_reason == "completed":
            book.wrong("conduct.budgets", path, "train_seconds", row.train_seconds, f"at most {meta.budget.seconds}")


def _check_times(audited: Audited, meta: JobMeta, path: str) -> None:
    """Attempts follow each other, and lie inside the time of the run's controllers."""
    book, journal = audited.book, audited.journal
    last_number, last_end = 0, _stamp(journal.first)
    for attempt in meta.attempts:
        book.checked("conduct.attempts")
        key = f"attempts[{attempt.number}]"
        if attempt.number <= last_number:
            book.wrong("conduct.attempts", path, key, attempt.number, f"more than {last_number}")
        last_number = attempt.number
        began, ended = _stamp(attempt.started_at), _stamp(attempt.ended_at)
        if last_end is not None and began is not None and began < last_end - _SLACK:
            book.wrong("conduct.attempts", path, f"{key}.started_at", attempt.started_at, "after what was before it")
        if began is not None and ended is not None and ended < began - _SLACK:
            book.wrong("conduct.attempts", path, f"{key}.ended_at", attempt.ended_at, f"after {attempt.started_at}")
        last_end = ended or began or last_end
    end = _stamp(journal.last)
    if not audited.why_unfinished and last_end is not None and end is not None and last_end > end + _SLACK:
        book.wrong("conduct.attempts", path, "ended_at", meta.ended_at, f"before the run's end at {journal.last}")
    course = journal.jobs.get(meta.job_id)
    if course is None or course.open:
        return
    if len(meta.attempts) < course.least:
        events = audited.path(audited.layout.events)
        key = f"job.start and job.retry of {meta.job_id}"
        book.wrong(
            "conduct.journal", events, key, course.least, f"{len(meta.attempts)}, as the job has so many attempts"
        )
    if not course.ever_cut and [a.number for a in meta.attempts] != list(range(1, len(meta.attempts) + 1)):
        book.wrong("conduct.attempts", path, "attempts", [a.number for a in meta.attempts], "all of them, from 1 on")


def _check_course(audited: Audited, row: Results) -> None:
    """The journal's end of the job is that of its row."""
    book, path = audited.book, audited.path(audited.layout.events)
    course = audited.journal.jobs.get(row.job_id)
    book.checked("conduct.journal")
    if course is None or not course.starts:
        book.wrong("conduct.journal", path, row.job_id, None, "the start of a job that has a result")
        return
    if course.ending is None:
        # The controller may have died, or been told to stop, between the result and the line.
        if not (audited.running or course.was_cut or not is_final(row)):
            book.wrong("conduct.journal", path, f"job.end of {row.job_id}", None, "the end of a job that has a result")
        return
    if not audited.running or not course.open:
        due = [row.status, row.failure_kind, row.stop_reason]
        book.equal("conduct.journal", path, f"job.end of {row.job_id}: {_ENDING}", list(course.ending), due)


def _check_seed(audited: Audited, meta: JobMeta, path: str) -> None:
    lock, claim = audited.lock, "held_out.seeds"
    if lock is None or lock.salt is None:
        audited.book.unknown(claim, "the salt is not published")
        return
    if meta.test_seed_commitment is None:
        audited.book.unknown(claim, "jobs of an earlier version do not say which seed they used")
        return
    due = seed_commitment(lock.salt, test_seed(lock.salt, meta.task_id, meta.seed))
    audited.book.equal(claim, path, "test_seed_commitment", meta.test_seed_commitment, due)


def check_end(audited: Audited, rows: Mapping[str, Results]) -> None:
    """The run as a whole, once all its jobs have been looked at."""
    _check_journal(audited, rows)
    _check_salt(audited, rows)
    _check_run_budget(audited, rows)
    _check_seeds(audited)
    _check_scripts(audited)


def _check_journal(audited: Audited, rows: Mapping[str, Results]) -> None:
    book, journal = audited.book, audited.journal
    path = audited.path(audited.layout.events)
    if not journal.starts:
        if rows:
            book.wrong("conduct.journal", path, was=None, due="run.start of a run that has results")
        else:
            book.unknown("conduct.journal", "the run was never started")
        return
    planned = len(audited.entries)
    if audited.manifest is not None and journal.last_start is not None:
        book.equal("conduct.journal", path, "run.start: jobs", journal.last_start.get("jobs"), planned)
    for job_id, course in journal.jobs.items():
        if job_id not in audited.entries and audited.manifest is not None:
            book.wrong("conduct.journal", path, job_id, "started", "a job of the manifest")
        elif job_id not in rows and course.ending is not None:
            book.wrong("conduct.journal", path, job_id, list(course.ending), "a job with a result")
    end = journal.last_end
    if journal.ended and end is not None:
        book.equal("conduct.journal", path, "run.end: jobs", end.get("jobs"), planned)
        ended = list(rows.values())
        book.equal("conduct.journal", path, "run.end: finished", end.get("finished"), sum(map(is_final, ended)))
        book.equal("conduct.journal", path, "run.end: interrupted", end.get("interrupted"), sum(map(was_cut, ended)))


def _check_salt(audited: Audited, rows: Mapping[str, Results]) -> None:
    book, lock, claim = audited.book, audited.lock, "held_out.salt"
    where = audited.path(audited.layout.lock)
    left = audited.folder.size(audited.path(audited.layout.salt)) is not None
    if lock is None:
        book.unknown(claim, "the run has no lock")
        return
    book.checked(claim)
    ended = not audited.why_unfinished and all(job_id in rows and is_final(rows[job_id]) for job_id in audited.entries)
    if lock.salt is None:
        if ended and audited.entries:
            book.wrong(claim, where, "salt", None, "the salt, as every job has ended")
        else:
            book.unknown(claim, audited.why_unfinished or "jobs have no ending that counts")
            book.unknown("held_out.seeds", "the salt is not published")
        return
    if not ended:
        book.wrong(claim, where, "salt", "published", "nothing, while jobs have no ending that counts")
    if left:
        book.wrong(claim, audited.path(audited.layout.salt), was="a salt", due="nothing, as it is published")
    if lock.salt_commitment is None:
        book.unknown(claim, "a run of an earlier version does not commit itself to its salt")
    else:
        book.equal(claim, where, "salt_commitment", lock.salt_commitment, salt_commitment(lock.salt))


def _check_run_budget(audited: Audited, rows: Mapping[str, Results]) -> None:
    config = audited.config
    if config is None or config.mode == "replay" or config.budget.run.calls is None:
        return
    audited.book.checked("conduct.budgets")
    spent = sum(row.llm_calls for row in rows.values())
    if spent > config.budget.run.calls:
        path = audited.path(audited.layout.summary)
        audited.book.wrong("conduct.budgets", path, "llm_calls", spent, f"at most {config.budget.run.calls}")


def _check_seeds(audited: Audited) -> None:
    """Every way of solving a task was run with every seed of the config."""
    config = audited.config
    if config is None or audited.manifest is None:
        audited.book.unknown("conduct.seeds", "the config cannot be read")
        return
    seeds: dict[str, list[int]] = {}
    for entry in audited.entries.values():
        ways = (entry.task_id, entry.eval_kwargs, entry.trainer_id, entry.raw_params, entry.variant, entry.model)
        seeds.setdefault(repr((*ways, entry.resolved_trainer_kwargs, entry.resolved_optimizer_kwargs)), []).append(
            entry.seed
        )
    path = audited.path(audited.layout.manifest)
    for found in seeds.values():
        audited.book.equal("conduct.seeds", path, "seeds", sorted(found), sorted(config.seeds))


def _check_scripts(audited: Audited) -> None:
    """The rules of each scripted model are there, and have the hash that it is named by."""
    book, lock = audited.book, audited.lock
    for model in lock.models if lock is not None else ():
        script = model.sampling.get("script")
        if model.provider != "scripted" or not isinstance(script, str):
            continue
        path = audited.path(audited.layout.script(hashlib.sha256(b"").hexdigest())).rpartition("/")[0]
        path = f"{path}/{script}.yaml"
        book.checked("conduct.scripts")
        try:
            data = audited.folder.data(path) if "/" not in script else None
        except Unreadable as error:
            book.wrong("conduct.scripts", path, was=str(error), due="the rules of a scripted model")
            continue
        if data is None:
            book.wrong("conduct.scripts", path, was=None, due="the rules of a scripted model")
        elif hashlib.sha256(data).hexdigest() != script:
            book.wrong("conduct.scripts", path, "sha256", hashlib.sha256(data).hexdigest(), script)


def _stamp(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value
