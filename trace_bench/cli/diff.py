"""``diff``: what differs between two jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import dumps, printable
from trace_bench.audit.job_diff import Difference, Job, diff
from trace_bench.cli.lookup import manifest_of
from trace_bench.cli.output import emit, emit_json
from trace_bench.cli.tables import emit_pairs, emit_table
from trace_bench.errors import ConfigError
from trace_bench.gateway.differences import first_difference
from trace_bench.records.runs import find_job, find_run

SHOWN = 200
"""Lines of a state's diff, unless all are asked for."""
_LONG = 100_000


def diff_command(jobs: Sequence[str], runs_dir: Path, *, every: bool, as_json: bool) -> None:
    """Print it.

    Args:
        jobs: ``RUN/JOB RUN/JOB``, ``RUN JOB JOB``, or ``JOB JOB`` of the latest run.

    Raises:
        ConfigError: they are not two, or there is no such run or job.
    """
    first, second = (_job(run, job, runs_dir) for run, job in _named(jobs))
    found = diff(first, second)
    if as_json:
        emit_json({"first": _who(first), "second": _who(second), "equal": found.is_empty, **asdict(found)})
        return
    emit_pairs([("first", _told(first)), ("second", _told(second))])
    if found.is_empty:
        emit("\nnothing differs, times apart")
    for title, differences in (("given", found.given), ("came out", found.came)):
        if differences:
            emit(f"\n{title}")
            cells = [(printable(d.what, 100), _cell(d.first), _cell(d.second)) for d in differences]
            emit_table(("what", "first", "second"), cells, elastic={"first": 12, "second": 12})
    for kind, changes in found.states.items():
        emit(f"\n{kind} state")
        for name, lines in changes.items():
            emit(f"  {printable(name, 200)}")
            for line in lines if every else lines[:SHOWN]:
                emit(f"    {printable(line, _LONG)}".rstrip())
            if not every and len(lines) > SHOWN:
                emit(f"    … {len(lines) - SHOWN} more lines; --all shows them")
    for title, differences in (("history", found.history), ("model calls", found.calls)):
        if differences:
            emit(f"\n{title}: the first line that differs")
            for difference in differences:
                emit(f"  {_sentence(difference)}")
    for text in found.unread:
        emit(f"\ndamaged: {printable(text, 400)}")


def _named(jobs: Sequence[str]) -> list[tuple[str, str]]:
    """Run and job of each of the two."""
    if len(jobs) == 3:
        return [(jobs[0], jobs[1]), (jobs[0], jobs[2])]
    if len(jobs) == 2 and all(text and "/" not in text for text in jobs):
        return [("latest", job) for job in jobs]
    pairs = [text.rstrip("/").rpartition("/")[::2] for text in jobs]
    if len(jobs) != 2 or not all(run and job for run, job in pairs):
        raise ConfigError("name two jobs: RUN/JOB RUN/JOB, RUN JOB JOB, or JOB JOB of the latest run")
    # Also the path of a job's folder, as a shell completes it.
    return [(run.removesuffix("/jobs"), job) for run, job in pairs]


def _job(run: str, job: str, runs_dir: Path) -> Job:
    layout = find_run(run, runs_dir)
    manifest = manifest_of(layout)
    entries = {entry.job_id: entry for entry in manifest.jobs}
    return Job(layout, entries[find_job(job, entries, manifest.run_id)])


def _who(job: Job) -> dict[str, str]:
    return {"run_id": job.run.run_id, "job_id": job.entry.job_id}


def _told(job: Job) -> str:
    entry = job.entry
    what = (f"{job.run.run_id}/{entry.job_id}", entry.task_id, entry.trainer_id, entry.variant, entry.model)
    return "  ".join(printable(text, 200) for text in what) + f"  seed {entry.seed}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return printable(value if isinstance(value, str) else dumps(value), 200)


def _sentence(difference: Difference) -> str:
    """Where two values part; those with an inside are told by what differs in it first."""
    what = printable(difference.what, 120)
    if difference.first is None or difference.second is None:
        only = "second" if difference.first is None else "first"
        value = difference.second if difference.first is None else difference.first
        return f"{what}: only the {only} has it" + ("" if value == "there" else f" ({_cell(value)})")
    if not isinstance(difference.first, str | dict | list):
        return f"{what}: {_cell(difference.first)} in the first, {_cell(difference.second)} in the second"
    told = first_difference({"it": difference.second}, {"it": difference.first})
    told = told.removeprefix("it.").removeprefix("it[").replace(", and was ", " in the second, in the first ")
    return f"{what}: {told.removeprefix('it ')}"
