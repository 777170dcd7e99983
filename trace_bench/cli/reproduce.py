"""``reproduce``: a run, or its scores, made again here, job by job."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.reproduction import JobReproduction, Pin, Reproduction
from trace_bench.audit.reproduce import (
    REPRODUCTIONS,
    Options,
    Prepared,
    folder_for,
    open_recording,
    prepare,
    replay,
    report_on,
    write_report,
)
from trace_bench.cli.displays import Display, alert
from trace_bench.cli.run import Shown, check_runs_dir, display_for
from trace_bench.cli.signals import RunInterrupted, StopOnSignals
from trace_bench.display.console import emit, emit_json, note
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.events import Event, JobSkipped, RunStarted, Subscriber
from trace_bench.planning.recording import Recording
from trace_bench.records.runs import find_job

SHOWN = 3
"""Differences of one job that are printed; the report has more."""
_WORDS = {"equal": "equal", "within": "within", "differs": "differs", "not_replayed": "not replayed"}
_STOPPING = "stopping: running jobs are ended and their sandboxes removed"


@dataclass(frozen=True)
class Given:
    """What of which run is made again, and where the outcome goes, as the user says it."""

    run: str
    runs_dir: Path
    output: Path | None
    jobs: Sequence[str]
    where: str | None


def reproduce_command(
    given: Given,
    overrides: Mapping[str, Any],
    *,
    roots: Sequence[Path],
    allow_weaker: Sequence[str],
    score_only: bool,
    pull: bool,
    build: bool,
    as_json: bool,
) -> int:
    """Make the run, or the scores of its saved states, again; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code.
    """
    with contextlib.ExitStack() as unpacked:
        recording, folder = _opened(given, unpacked)
        jobs = _asked_for(recording, given.jobs, given.where)
        options = Options(overrides, roots, jobs, allow_weaker, pull, build)
        prepared = prepare(recording, folder, options, note)
        check_runs_dir(prepared.plan.config)
        unpacked.pop_all()
    if not as_json:
        _print_pins(prepared, score_only)
    if prepared.plan.backend.integrity != "protected":
        note("warning: programs of the run, which may be anybody's, run as you on this backend")
    report = _scored(prepared) if score_only else _replayed(prepared, Shown(quiet=as_json))
    path = write_report(report, folder)
    if as_json:
        emit_json({**report.model_dump(mode="json"), "ok": report.ok, "report": str(path)})
    else:
        _print_jobs(report)
        emit(_summary(report))
        note(f"report: {path}")
    return int(ExitCode.OK if report.ok else ExitCode.JOB_FAILED)


def _opened(given: Given, unpacked: contextlib.ExitStack) -> tuple[Recording, Path]:
    """The run, and the folder for what comes of it. An archive is unpacked there; `unpacked` takes that back."""
    if Path(given.run).is_file():
        from trace_bench.records.archive import extract

        folder = folder_for(Path(given.run).name.split(".")[0] or "archive", given.output, None)
        for made in (REPRODUCTIONS, folder):
            if not made.exists():
                unpacked.callback(_remove_if_empty, made)
        unpacked.callback(shutil.rmtree, folder / "recorded", ignore_errors=True)
        run = extract(Path(given.run), folder / "recorded").run
        return open_recording(str(run.root), given.runs_dir), folder
    recording = open_recording(given.run, given.runs_dir)
    return recording, folder_for(recording.layout.run_id, given.output, recording.layout.root)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _asked_for(recording: Recording, jobs: Sequence[str], where: str | None) -> set[str] | None:
    """Ids of the jobs that are meant; None for all.

    Raises:
        ConfigError: a job is not there, or none is meant.
    """
    if not jobs and where is None:
        return None
    run_id = recording.layout.run_id
    wanted = {find_job(text, recording.jobs, run_id) for text in jobs} or set(recording.jobs)
    if where is not None:
        import pandas as pd

        from trace_bench.analysis.where import KEYS, parse_where

        meant = parse_where(where)
        of_rows = ("backend", "hardware")
        columns = [column for column in KEYS.values() if column not in ("run_id", *of_rows)]
        frame = pd.DataFrame(
            [{"job_id": e.job_id, **{c: getattr(e, c) for c in columns}} for e in recording.jobs.values()]
        )
        rows = recording.rows
        for column in of_rows:
            frame[column] = [getattr(rows[job_id], column) if job_id in rows else "" for job_id in frame["job_id"]]
        wanted &= set(meant.of(frame.assign(run_id=run_id))["job_id"])
    if not wanted:
        raise ConfigError(f"option --where: no job of run {run_id} fits {where or ''!r}")
    return wanted


def _of(chosen: Collection[str], display: Display) -> Subscriber:
    """Show the events of the `chosen` jobs alone, of which the run may have thousands."""

    def notify(event: Event) -> None:
        if isinstance(event, RunStarted):
            event = replace(event, jobs=[job for job in event.jobs if job.job_id in chosen])
        if not isinstance(event, JobSkipped) or event.job.job_id in chosen:
            display.notify(event)

    return notify


def _replayed(prepared: Prepared, shown: Shown) -> Reproduction:
    display = display_for(shown, prepared.plan.warnings)
    code = int(ExitCode.JOB_FAILED)
    try:
        with StopOnSignals(display.alert) as stop:
            subscriber = _of({planned.job_id for planned in prepared.chosen}, display)
            report = replay(prepared, subscriber=subscriber, stop_wanted=stop.wanted)
        code = int(ExitCode.OK if report.ok else ExitCode.JOB_FAILED)
        return report
    except Interrupted as error:
        code = int(ExitCode.INTERRUPTED)
        raise RunInterrupted("interrupted; nothing is compared: run the same command again") from error
    except TraceBenchError as error:
        code = int(error.exit_code)
        raise
    finally:
        display.close(code)


def _scored(prepared: Prepared) -> Reproduction:
    from trace_bench.audit.rescore import rescore

    try:
        with StopOnSignals(lambda _: alert(_STOPPING)) as stop:
            jobs = rescore(prepared, stop_wanted=stop.wanted)
    except Interrupted as error:
        raise RunInterrupted(str(error)) from error
    return report_on(prepared, jobs, mode="score-only")


def _print_pins(prepared: Prepared, score_only: bool) -> None:
    run = prepared.recording.layout.run_id
    what = "saved states of" if score_only else "jobs of"
    emit(f"{what} {run}, {len(prepared.chosen)} jobs, on backend {prepared.plan.backend.name}")
    for pin in _brief(prepared.pins):
        emit("  " + pin)
    emit()


def _brief(pins: Sequence[Pin]) -> list[str]:
    """A line for each; packages, of which there are many, share one."""
    lines = []
    for pin in pins:
        if pin.what != "package":
            word = "unknown" if pin.same is None else "same" if pin.same else "other"
            name = f"{pin.what} {pin.name}".strip()
            lines.append(f"{word:8s} {name}" + (f": {pin.says}" if pin.says else ""))
    packages = [pin for pin in pins if pin.what == "package"]
    if packages:
        other = [pin.says for pin in packages if not pin.same]
        lines.append(
            f"{'other' if other else 'same':8s} {len(packages)} packages" + (f": {'; '.join(other)}" if other else "")
        )
    return lines


def _print_jobs(report: Reproduction) -> None:
    for job in report.jobs:
        word = f"within {job.tolerance:g}" if job.verdict == "within" else _WORDS[job.verdict]
        who = f"{job.task_id} {job.trainer_id}"
        variant = f" {job.variant}" if job.variant else ""
        emit(f"{word:13s} {job.job_id}  {who}{variant} seed {job.seed}")
        for line in _details(job):
            emit(f"{'':13s} {line}")


def _details(job: JobReproduction) -> list[str]:
    if job.verdict == "equal":
        return []
    lines = [job.why] if job.why else []
    told = [f"{d.what}: was {_text(d.recorded)}, is {_text(d.replayed)}" for d in job.differences[:SHOWN]]
    told += [
        f"{score.state} state, {score.split}, {score.metric} ({score.file}): was "
        f"{_number(score.recorded)}, is {_number(score.found)}"
        for score in job.scores
        if score.verdict in ("differs", "within")
    ]
    lines += told[:SHOWN] + ([f"and {len(told) - SHOWN} more, in the report"] if len(told) > SHOWN else [])
    if job.verdict == "differs":
        because = [f"may be because {reason}" for reason in job.reasons]
        lines += because or ["nothing that determines the job is known to be otherwise here"]
    return lines


def _summary(report: Reproduction) -> str:
    counts = report.counts
    equal = counts.get("equal", 0) + counts.get("within", 0)
    what = "jobs" if report.mode == "replay" else "jobs' scores"
    told = f"{equal} of {len(report.jobs)} {what} came out equal ({counts.get('equal', 0)} to the bit)"
    if counts.get("differs"):
        told += f", {counts['differs']} differ"
    if counts.get("not_replayed"):
        told += f", {counts['not_replayed']} could not be {'replayed' if report.mode == 'replay' else 'scored'}"
    return told


def _text(value: Any) -> str:
    return quoted(value if isinstance(value, str) else dumps(value), 200)


def _number(value: float | None) -> str:
    return "none" if value is None else repr(value)
