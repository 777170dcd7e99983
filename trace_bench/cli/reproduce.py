"""The steps of ``reproduce``, and the lines that it prints of each job."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_bench.artifacts.reproduction import JobReproduction, Reproduction
from trace_bench.audit.reproduce import (
    REPRODUCTIONS,
    Prepared,
    folder_for,
    open_recording,
    replay,
    report_on,
)
from trace_bench.cancellation import Cancellation
from trace_bench.cli.displays import Display
from trace_bench.cli.run import DisplayOptions, display_for
from trace_bench.cli.signals import RunInterrupted, StopOnSignals, stopping
from trace_bench.display.console import emit
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.events import Event, JobSkipped, RunStarted, Subscriber
from trace_bench.planning.recording import Recording
from trace_bench.records.runs import find_job

SHOWN = 3
"""Differences of one job that are printed; the report lists more."""


def open_named(run: str, runs_dir: Path, output: Path | None, unpacked: contextlib.ExitStack) -> tuple[Recording, Path]:
    """Open the run that `run` names, and choose the folder for the result.

    Args:
        output: that folder; None is one below `REPRODUCTIONS`.
        unpacked: removes what was unpacked of an archive, unless its callbacks are taken away.
    """
    if Path(run).is_file():
        from trace_bench.records.archive import extract

        folder = folder_for(Path(run).name.split(".")[0] or "archive", output, None)
        for made in (REPRODUCTIONS, folder):
            if not made.exists():
                unpacked.callback(_remove_if_empty, made)
        unpacked.callback(shutil.rmtree, folder / "recorded", ignore_errors=True)
        found = extract(Path(run), folder / "recorded").run
        return open_recording(str(found.root), runs_dir), folder
    recording = open_recording(run, runs_dir)
    return recording, folder_for(recording.layout.run_id, output, recording.layout.root)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def chosen_jobs(recording: Recording, jobs: Sequence[str], where: str | None) -> set[str] | None:
    """Ids of the jobs to repeat; None for all.

    Raises:
        ConfigError: a job does not exist, or no job matches.
    """
    if not jobs and where is None:
        return None
    run_id = recording.layout.run_id
    wanted = {find_job(text, recording.jobs, run_id) for text in jobs} or set(recording.jobs)
    if where is not None:
        import pandas as pd

        from trace_bench.analysis.where import KEYS, parse_where

        of_rows = ("backend", "hardware")
        columns = [column for column in KEYS.values() if column not in ("run_id", *of_rows)]
        frame = pd.DataFrame(
            [{"job_id": e.job_id, **{c: getattr(e, c) for c in columns}} for e in recording.jobs.values()]
        )
        rows = recording.rows
        for column in of_rows:
            frame[column] = [getattr(rows[job_id], column) if job_id in rows else "" for job_id in frame["job_id"]]
        wanted &= set(parse_where(where).of(frame.assign(run_id=run_id))["job_id"])
    if not wanted:
        raise ConfigError(f"option --where: no job of run {run_id} matches {where!r}")
    return wanted


def _of(chosen: Collection[str], display: Display) -> Subscriber:
    """Show the events of the `chosen` jobs alone, of which the run may have thousands."""

    def notify(event: Event) -> None:
        if isinstance(event, RunStarted):
            event = replace(event, jobs=[job for job in event.jobs if job.job_id in chosen])
        if not isinstance(event, JobSkipped) or event.job.job_id in chosen:
            display.notify(event)

    return notify


def replay_and_show(prepared: Prepared, shown: DisplayOptions) -> Reproduction:
    """Run the jobs again with the recorded answers, and show how that goes on."""
    display = display_for(shown, prepared.plan.warnings)
    code = int(ExitCode.JOB_FAILED)
    try:
        with StopOnSignals(display.alert) as stop:
            subscriber = _of({planned.job_id for planned in prepared.chosen}, display)
            report = replay(prepared, subscriber=subscriber, stop=Cancellation(stop.wanted))
        code = int(ExitCode.OK if report.ok else ExitCode.JOB_FAILED)
        return report
    except Interrupted as error:
        code = int(ExitCode.INTERRUPTED)
        raise RunInterrupted("interrupted; nothing was compared: run the same command again") from error
    except TraceBenchError as error:
        code = int(error.exit_code)
        raise
    finally:
        display.close(code)


def score_again(prepared: Prepared) -> Reproduction:
    """Score the saved states again."""
    from trace_bench.audit.rescore import rescore

    with stopping("stopping: running jobs are ended and their sandboxes removed") as stop:
        jobs = rescore(prepared, stop=stop)
    return report_on(prepared, jobs, mode="score-only")


def print_pins(prepared: Prepared, score_only: bool) -> None:
    """Print which jobs are repeated, and which versions and images differ here. All packages share one line."""
    what = "saved states of" if score_only else "jobs of"
    run_id, backend = prepared.recording.layout.run_id, prepared.plan.backend.name
    emit(f"{what} {run_id}, {len(prepared.chosen)} jobs, on backend {backend}")
    packages = [pin for pin in prepared.pins if pin.what == "package"]
    for pin in prepared.pins:
        if pin.what != "package":
            word = "unknown" if pin.same is None else "same" if pin.same else "other"
            emit(f"  {word:8s} {pin.what} {pin.name}".rstrip() + (f": {pin.says}" if pin.says else ""))
    if packages:
        differing = "; ".join(pin.says for pin in packages if not pin.same)
        word = "other" if differing else "same"
        emit(f"  {word:8s} {len(packages)} packages" + (f": {differing}" if differing else ""))
    emit()


def print_jobs(report: Reproduction) -> None:
    """Print a line for each job, and its differences."""
    for job in report.jobs:
        word = f"within {job.tolerance:g}" if job.verdict == "within" else job.verdict.replace("_", " ")
        variant = f" {job.variant}" if job.variant else ""
        emit(f"{word:13s} {job.job_id}  {job.task_id} {job.trainer_id}{variant} seed {job.seed}")
        for line in _details(job):
            emit(f"{'':13s} {line}")


def _details(job: JobReproduction) -> list[str]:
    if job.verdict == "equal":
        return []
    differences = [f"{d.what}: was {_value(d.recorded)}, is {_value(d.replayed)}" for d in job.differences[:SHOWN]]
    differences += [
        f"{score.state} state, {score.split}, {score.metric} ({score.file}): was {_value(score.recorded)}, is "
        f"{_value(score.found)}"
        for score in job.scores
        if score.verdict in ("differs", "within")
    ]
    lines = [job.why[:500]] if job.why else []
    lines += differences[:SHOWN]
    if len(differences) > SHOWN:
        lines.append(f"and {len(differences) - SHOWN} more, in the report")
    if job.verdict == "differs":
        reasons = [f"may be because {reason}" for reason in job.reasons]
        lines += reasons or ["no difference is known in what determines the job"]
    return lines


def summary(report: Reproduction) -> str:
    """How many jobs came out equal."""
    counts = report.counts
    exact, within, differ, missing = (counts.get(name, 0) for name in ("equal", "within", "differs", "not_replayed"))
    what, done = ("jobs", "replayed") if report.mode == "replay" else ("jobs' scores", "scored")
    text = f"{exact + within} of {len(report.jobs)} {what} came out equal ({exact} to the bit)"
    return text + (f", {differ} differ" if differ else "") + (f", {missing} could not be {done}" if missing else "")


def _value(value: Any) -> str:
    return "none" if value is None else quoted(value, 200)
