"""``diff``: what differs between two jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir
from trace_bench.display.console import emit, emit_json, emit_pairs, emit_table
from trace_bench.display.table import Table
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from trace_bench.audit.job_diff import Difference, Job

SHOWN = 200
"""Lines of a state's diff without ``--all``."""


def diff(
    jobs: Annotated[list[str], Argument(metavar="JOB JOB", help="Of the latest run, or each as RUN/JOB.")],
    every: Annotated[bool, Option("--all", help="Show all of long diffs.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Show what differs between two jobs, and where first.

    Example: trace-bench diff latest 3ddb 5b37
    """
    from trace_bench.audit.job_diff import diff as diff_jobs

    first, second = (_job(run, job, runs_dir) for run, job in _named(jobs))
    found = diff_jobs(first, second)
    if as_json:
        emit_json({"first": _ids(first), "second": _ids(second), "equal": found.is_empty, **asdict(found)})
        return
    emit_pairs([("first", _described(first)), ("second", _described(second))])
    if found.is_empty:
        emit()
        emit("nothing differs, times apart")
    for title, differences in (("given", found.given), ("came out", found.came)):
        if differences:
            emit()
            emit(title)
            cells = [(d.what, _text(d.first), _text(d.second)) for d in differences]
            emit_table(Table.of(("what", "first", "second"), cells, shrink={"first": 12, "second": 12}))
    for kind, changes in found.states.items():
        emit()
        emit(f"{kind} state")
        for name, lines in changes.items():
            emit(f"  {name}")
            for line in lines if every else lines[:SHOWN]:
                emit(f"    {line}".rstrip())
            if not every and len(lines) > SHOWN:
                emit(f"    … {len(lines) - SHOWN} more lines; --all shows them")
    for title, differences in (("history", found.history), ("model calls", found.calls)):
        if differences:
            emit()
            emit(f"{title}: the first line that differs")
            for difference in differences:
                emit(f"  {_sentence(difference)}")
    for text in found.unread:
        emit()
        emit(f"damaged: {text}")


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
    from trace_bench.audit.job_diff import Job
    from trace_bench.cli.lookup import manifest_of
    from trace_bench.records.runs import find_job, find_run

    layout = find_run(run, runs_dir)
    manifest = manifest_of(layout)
    entries = {entry.job_id: entry for entry in manifest.jobs}
    return Job(layout, entries[find_job(job, entries, manifest.run_id)])


def _ids(job: Job) -> dict[str, str]:
    return {"run_id": job.run.run_id, "job_id": job.entry.job_id}


def _described(job: Job) -> str:
    entry = job.entry
    what = (f"{job.run.run_id}/{entry.job_id}", entry.task_id, entry.trainer_id, entry.variant, entry.model)
    return "  ".join(what) + f"  seed {entry.seed}"


def _text(value: Any) -> str:
    return "-" if value is None else quoted(value, 200)


def _sentence(difference: Difference) -> str:
    """The first difference of two values; of objects and lists, the first item that differs."""
    from trace_bench.gateway.differences import first_difference

    what = difference.what
    if difference.first is None or difference.second is None:
        only = "second" if difference.first is None else "first"
        value = difference.second if difference.first is None else difference.first
        return f"{what}: only the {only} has it" + ("" if value == "there" else f" ({_text(value)})")
    if not isinstance(difference.first, str | dict | list):
        return f"{what}: {_text(difference.first)} in the first, {_text(difference.second)} in the second"
    parted = first_difference({"it": difference.second}, {"it": difference.first})
    parted = parted.removeprefix("it.").removeprefix("it[").replace(", and was ", " in the second, in the first ")
    return f"{what}: {parted.removeprefix('it ')}"
