"""Preconditions of single jobs: an image, a data set, the key of a model, a host, a service of the host.

A job that lacks one is skipped, with the reason in its row, and the others run. Such a run is unfinished: the same
command continues it once the machine has what was missing. Nothing starts if no job could run, or if the config says
``require_all``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from trace_bench.display.text import clean_line
from trace_bench.errors import TraceBenchError
from trace_bench.matrix import Job
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.records.rows import CANNOT_RUN

Check = Callable[[Job], TraceBenchError | None]
"""Returns what a job lacks on this machine, as an error that names the remedy; None if it lacks nothing."""
_MOST_TEXT = 600


def unmet_of(jobs: Iterable[Job], checks: Sequence[Check]) -> dict[str, TraceBenchError]:
    """The first precondition that each job lacks, by job id; jobs that lack none are left out."""
    found = ((job.job_id, next(filter(None, (check(job) for check in checks)), None)) for job in jobs)
    return {job_id: error for job_id, error in found if error is not None}


def without_unmet(
    jobs: Sequence[PlannedJob], unmet: Mapping[str, TraceBenchError], *, require_all: bool
) -> tuple[PlannedJob, ...]:
    """`jobs`, of which those that were to run and lack a precondition are skipped.

    Raises:
        TraceBenchError: some lack one, and all are required, or no job is left; of the kind of the first reason, with
            all reasons, one a line.
    """
    lacking = [job for job in jobs if job.decision == "run" and job.job_id in unmet]
    if not lacking:
        return tuple(jobs)
    left = sum(job.decision != "skip" for job in jobs) - len(lacking)
    if require_all or not left:
        refuse(unmet[job.job_id] for job in lacking)
    reasons = {job.job_id: CANNOT_RUN + clean_line(str(unmet[job.job_id]), _MOST_TEXT) for job in lacking}
    return tuple(
        replace(job, decision="skip", reason=reasons[job.job_id]) if job.job_id in reasons else job for job in jobs
    )


def refuse(errors: Iterable[TraceBenchError]) -> None:
    """Raise an error of the kind of the first of `errors`, with the messages of all, one a line."""
    found = list(errors)
    raise type(found[0])("\n".join(dict.fromkeys(map(str, found)))) from found[0]


def missing_by(key: Callable[[Job], str], missing: Mapping[str, TraceBenchError]) -> Check:
    """The check for what is missing under the `key` of a job."""
    return lambda job: missing.get(key(job))
