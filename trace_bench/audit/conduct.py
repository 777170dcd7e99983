"""Checks how jobs were run: controls, hosts, budgets, attempts, the journal, and the salt of held-out data."""

from __future__ import annotations

import hashlib

from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun, seconds_of
from trace_bench.identity import salt_commitment, seed_commitment, test_seed
from trace_bench.records.rows import is_final, was_cut
from trace_bench.sandbox.backends import protects
from trace_bench.sandbox.base import CONTROLS, NEVER_WEAKER

ATTEMPTS, BUDGETS, CONTROL, JOURNAL = "conduct.attempts", "conduct.budgets", "conduct.controls", "conduct.journal"
SALT, SCRIPTS, TEST_SEEDS = "held_out.salt", "conduct.scripts", "held_out.seeds"
_CLOCK_SLACK = 2.0
"""Seconds by which recorded times of one clock can be off."""
_SECONDS_GRACE = 60.0
"""Seconds that training can take beyond its budget: until the trainer next checks whether to stop, or is killed."""


# ------------------------------------------------------------------------------------------------------- one job


def _check_controls(run: AuditedRun, meta: JobMeta, at: Findings) -> None:
    local = not protects(meta.backend)
    protected = local and meta.integrity != "unprotected"
    at.check(not protected, CONTROL, "integrity", meta.integrity, "unprotected: backend local protects nothing")
    if run.env is not None:
        named = run.env.backend.get("backend", run.env.backend.get("name", meta.backend))
        at.equal(CONTROL, "backend", meta.backend, named)
    if not meta.controls:
        if meta.status == "ok":
            at.wrong(CONTROL, "controls", None, "what was in force")
        return
    found = {control.name: control for control in meta.controls}
    if len(found) < len(meta.controls):
        at.wrong(CONTROL, "controls", "one twice", "each once")
    job = run.expanded.get(meta.job_id)
    sandbox = job.sandbox if job is not None else run.config.sandbox if run.config is not None else None
    for name in CONTROLS:
        control = found.get(name)
        required = sandbox is not None and name in sandbox.require_controls
        if control is None and run.same_worker_code:
            at.wrong(CONTROL, name, None, "whether it was in force")
        elif control is not None and control.in_force:
            if local:
                at.wrong(CONTROL, name, "in force", "not in force: backend local has no sandbox")
        elif required or (name in NEVER_WEAKER and not local):
            at.wrong(CONTROL, name, control.detail if control else None, "in force")
        elif control is not None and not local:
            given_up = sandbox is not None and name in sandbox.allow_weaker
            why = "the config allows that" if given_up else "the backend could not set it"
            at.remark(CONTROL, f"{name} was not in force for some jobs: {why}")


def _check_hosts(run: AuditedRun, meta: JobMeta, at: Findings) -> None:
    """The host of the job is that of its last attempt, and ``env.json`` describes the hosts of the last controller."""
    if meta.attempts:
        at.equal(CONTROL, "host", meta.host, meta.attempts[-1].host)
    if run.env is None:
        return
    hosts = list(run.env.backend.get("hosts") or ())
    last_start = seconds_of(run.journal.starts[-1]) if run.journal.starts else None
    for attempt in meta.attempts:
        began = seconds_of(attempt.started_at)
        if attempt.host is None or attempt.host in hosts:
            continue
        if last_start is None or began is None or began < last_start - _CLOCK_SLACK:
            at.unknown(CONTROL, "env.json does not describe the hosts of an earlier controller")
        else:
            at.wrong(CONTROL, f"attempts[{attempt.number}].host", attempt.host, ", ".join(map(str, hosts)) or None)


def _check_budget(meta: JobMeta, row: Results | None, at: Findings) -> None:
    if row is None:
        return
    for name, spent in (("evaluations", row.evaluations), ("calls", row.llm_calls - (row.scoring_calls or 0))):
        limit = getattr(meta.budget, name)
        if limit is not None:
            at.check(spent <= limit, BUDGETS, name, spent, f"at most {limit}")
    seconds, limit = row.train_seconds, meta.budget.seconds
    if limit is not None and seconds is not None and meta.mode != "replay":
        ok = seconds <= limit + _SECONDS_GRACE or row.stop_reason != "completed"
        at.check(ok, BUDGETS, "train_seconds", seconds, f"at most {limit}")


def _check_attempts(run: AuditedRun, meta: JobMeta, at: Findings) -> None:
    """Attempts follow each other, lie inside the time of the run, and are as many as the journal says."""
    journal, numbers = run.journal, [attempt.number for attempt in meta.attempts]
    last_number, last_end = 0, seconds_of(journal.first)
    for attempt in meta.attempts:
        key = f"attempts[{attempt.number}]"
        at.check(attempt.number > last_number, ATTEMPTS, key, attempt.number, f"more than {last_number}")
        last_number = attempt.number
        began, ended = seconds_of(attempt.started_at), seconds_of(attempt.ended_at)
        if last_end is not None and began is not None and began < last_end - _CLOCK_SLACK:
            at.wrong(ATTEMPTS, f"{key}.started_at", attempt.started_at, "after what was before it")
        if began is not None and ended is not None and ended < began - _CLOCK_SLACK:
            at.wrong(ATTEMPTS, f"{key}.ended_at", attempt.ended_at, f"after {attempt.started_at}")
        last_end = ended or began or last_end
    end = seconds_of(journal.last)
    if not run.why_unfinished and last_end is not None and end is not None and last_end > end + _CLOCK_SLACK:
        at.wrong(ATTEMPTS, "ended_at", meta.ended_at, f"before the run's end at {journal.last}")
    events = journal.jobs.get(meta.job_id)
    if events is None or events.open:
        return
    if len(numbers) < events.min_attempts:
        key, expected = f"job.start and job.retry of {meta.job_id}", f"{len(numbers)}, the job's number of attempts"
        run.at(run.layout.events).wrong(JOURNAL, key, events.min_attempts, expected)
    if not events.ever_cut and numbers != list(range(1, len(numbers) + 1)):
        at.wrong(ATTEMPTS, "attempts", numbers, "all attempts, from 1 on")


def _check_test_seed(run: AuditedRun, meta: JobMeta, at: Findings) -> None:
    if run.lock is None or run.lock.salt is None:
        at.unknown(TEST_SEEDS, "the salt is not published")
    elif meta.test_seed_commitment is None:
        at.unknown(TEST_SEEDS, "jobs of an earlier version do not record which seed they used")
    else:
        expected = seed_commitment(run.lock.salt, test_seed(run.lock.salt, meta.task_id, meta.seed))
        at.equal(TEST_SEEDS, "test_seed_commitment", meta.test_seed_commitment, expected)


def check_conduct(run: AuditedRun, meta: JobMeta, row: Results | None, at: Findings) -> None:
    """Check a job that has a record, and can have a row."""
    _check_controls(run, meta, at)
    _check_hosts(run, meta, at)
    _check_budget(meta, row, at)
    _check_attempts(run, meta, at)
    _check_test_seed(run, meta, at)


def check_journal_of(run: AuditedRun, row: Results) -> None:
    """The journal has the start and the outcome of a job that has a row."""
    at, events = run.at(run.layout.events), run.journal.jobs.get(row.job_id)
    if not at.check(events is not None and events.starts > 0, JOURNAL, row.job_id, None, "the start of this job"):
        return
    assert events is not None
    if events.outcome is None:
        # A controller can be killed or stopped after it wrote the row and before it wrote the line.
        if not (run.running or events.was_cut or not is_final(row)):
            at.wrong(JOURNAL, f"job.end of {row.job_id}", None, "the end of a job that has a result")
    elif not run.running or not events.open:
        key = f"job.end of {row.job_id}: status, failure_kind, stop_reason"
        at.equal(JOURNAL, key, list(events.outcome), [row.status, row.failure_kind, row.stop_reason])


# ------------------------------------------------------------------------------------------------------ whole run


def check_journal(run: AuditedRun) -> None:
    at, journal, planned = run.at(run.layout.events), run.journal, len(run.entries)
    if not journal.starts:
        if run.rows:
            at.wrong(JOURNAL, found=None, expected="run.start of a run that has results")
        else:
            at.unknown(JOURNAL, "the run was never started")
        return
    if run.manifest is not None and journal.last_start is not None:
        at.equal(JOURNAL, "run.start: jobs", journal.last_start.get("jobs"), planned)
    for job_id, events in journal.jobs.items():
        if job_id not in run.entries and run.manifest is not None:
            at.wrong(JOURNAL, job_id, "started", "a job of the manifest")
        elif job_id not in run.rows and events.outcome is not None:
            at.wrong(JOURNAL, job_id, list(events.outcome), "a job with a result")
    if journal.ended and journal.last_end is not None:
        rows = run.rows.values()
        counts = {"jobs": planned, "finished": sum(map(is_final, rows)), "interrupted": sum(map(was_cut, rows))}
        for name, count in counts.items():
            at.equal(JOURNAL, f"run.end: {name}", journal.last_end.get(name), count)


def check_salt(run: AuditedRun) -> None:
    """The salt is published when every job has finished, and is the one that the run committed itself to."""
    lock, at = run.lock, run.at(run.layout.lock)
    if lock is None:
        at.unknown(SALT, "the run has no lock")
        return
    at.checked(SALT)
    finished = not run.why_unfinished and all(j in run.rows and is_final(run.rows[j]) for j in run.entries)
    if lock.salt is None:
        if finished and run.entries:
            at.wrong(SALT, "salt", None, "the salt, as every job has finished")
        else:
            at.unknown(SALT, run.why_unfinished or "jobs have not finished")
            at.unknown(TEST_SEEDS, "the salt is not published")
        return
    if not finished:
        at.wrong(SALT, "salt", "published", "nothing, while jobs have not finished")
    if run.folder.size(run.path(run.layout.salt)) is not None:
        run.at(run.layout.salt).wrong(SALT, found="a salt", expected="nothing, as it is published")
    if lock.salt_commitment is None:
        at.unknown(SALT, "a run of an earlier version does not commit itself to its salt")
    else:
        at.equal(SALT, "salt_commitment", lock.salt_commitment, salt_commitment(lock.salt))


def check_run_budget(run: AuditedRun) -> None:
    config = run.config
    if config is not None and config.mode != "replay" and (limit := config.budget.run.calls) is not None:
        spent = sum(row.llm_calls for row in run.rows.values())
        run.at(run.layout.summary).check(spent <= limit, BUDGETS, "llm_calls", spent, f"at most {limit}")


def check_scripts(run: AuditedRun) -> None:
    """The rules of each scripted model exist, and have the hash that names them."""
    folder = run.layout.script(hashlib.sha256(b"").hexdigest()).parent
    for model in run.lock.models if run.lock is not None else ():
        script = model.sampling.get("script")
        if model.provider != "scripted" or not isinstance(script, str):
            continue
        at = run.findings.in_file(f"{run.path(folder)}/{script}.yaml")
        try:
            data = run.folder.data(at.file) if "/" not in script else None
        except Unreadable as error:
            at.wrong(SCRIPTS, found=str(error), expected="the rules of a scripted model")
            continue
        if data is None:
            at.wrong(SCRIPTS, found=None, expected="the rules of a scripted model")
        else:
            at.equal(SCRIPTS, "sha256", hashlib.sha256(data).hexdigest(), script)
