"""``run``: a config becomes a finished run and a leaderboard."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from trace_bench.artifacts.records import Results
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.controller.job import JobPlan
from trace_bench.controller.run import RunResult
from trace_bench.controller.start import run_config
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ExitCode, Interrupted, TraceBenchError
from trace_bench.resources import data_dir
from trace_bench.results.leaderboard import rank
from trace_bench.results.render import leaderboard_text


class RunInterrupted(TraceBenchError):
    """`Interrupted` on its way to the terminal: on a KeyboardInterrupt, which that is, typer ends without a word."""

    exit_code = ExitCode.INTERRUPTED


def run_command(
    path: Path,
    overrides: Mapping[str, Any],
    *,
    roots: Sequence[Path],
    build: bool,
    accept_drift: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the config at `path`; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code.
    """
    gc.freeze()  # the modules: garbage is looked for among what comes from here on
    gc.enable()
    config = load_config(find_config(path), overrides)
    if accept_drift:
        config = config.model_copy(update={"images": config.images.model_copy(update={"accept_drift": True})})
    check_runs_dir(config)
    for warning in config.warnings:
        note(f"warning: {warning}")
    stop = StopOnSignals()
    progress = Lines(quiet=quiet or as_json)
    try:
        with stop:
            result = run_config(
                config,
                roots=roots,
                build=build,
                progress=progress,
                say=(lambda _: None) if quiet else note,
                stop_wanted=stop.wanted,
            )
    except Interrupted as error:
        raise RunInterrupted(str(error)) from error
    except TraceBenchError:  # some of which are an OSError too
        raise
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{error.filename or config.runs_dir}: {error.strerror or error}; what has finished is kept: "
            "correct that, and continue with --run-id"
        ) from error
    if as_json:
        emit_json(_as_json(result))
    else:
        _print(result)
    return int(ExitCode.OK if result.ok else ExitCode.JOB_FAILED)


def find_config(path: Path) -> Path:
    """`path`, or the shipped config of that file name where `path` does not exist."""
    if not path.exists():
        shipped = data_dir("configs") / path.name
        if shipped.is_file() and path.parent in (Path(), Path("configs")):
            return shipped
    return path


def check_runs_dir(config: RunConfig) -> None:
    """Before images are built and sandboxes made for a run that could not be written.

    Raises:
        ConfigError: a file is in its place. EnvironmentUnavailable: there is no right to write there.
    """
    folder = Path(config.runs_dir).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise ConfigError(f"{config.source.where(('runs_dir',))}: {there} is no folder; name another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise EnvironmentUnavailable(f"{there} cannot be written; name another folder with --runs-dir")


class StopOnSignals:
    """First Ctrl-C or SIGTERM: end in order. Second: kill.

    Until somebody asks what is `wanted`, nothing runs that could end in order (an image is built), and the first one
    ends the command.
    """

    def __init__(self) -> None:
        self._count = 0
        self._asked = False
        self._before: dict[int, Any] = {}

    def wanted(self) -> str | None:
        """What jobs are asked to do."""
        self._asked = True
        return (None, "interrupted")[self._count] if self._count < 2 else "kill"

    def __enter__(self) -> StopOnSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._asked:
            raise KeyboardInterrupt
        self._count += 1
        if self._count == 1:
            note("stopping: running jobs end in order and are collected; once more to kill them")


class Lines:
    """Progress as plain lines on stderr, one per job started and ended."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._jobs = self._ended = 0

    def begun(self, run_id: str, jobs: int) -> None:
        self._jobs = jobs
        if not self._quiet:
            note(f"run    {run_id}  {jobs} jobs")

    def started(self, plan: JobPlan) -> None:
        if not self._quiet:
            note(f"start  {_name(plan)}")

    def advanced(self, plan: JobPlan, line: Mapping[str, Any]) -> None: ...

    def finished(self, plan: JobPlan, row: Results, *, reused: bool) -> None:
        if self._quiet:
            return
        self._ended += 1
        count = f"[{self._ended}/{self._jobs}]"
        if row.stop_reason == "interrupted":
            note(f"cut    {_name(plan)}  interrupted; will run again when the run is continued")
        elif row.status == "ok":
            best = "-" if row.score_best is None else f"{row.score_best:.6g}"
            initial = "-" if row.score_initial is None else f"{row.score_initial:.6g}"
            seconds = "reused" if reused else f"{row.time_seconds or 0:.1f} s"
            note(f"ok     {_name(plan)}  {initial} -> {best}  {seconds}  {count}")
        else:
            note(f"{row.status} {_name(plan)}  {row.failure_boundary}: {row.failure_kind}: {row.feedback}  {count}")


def _name(plan: JobPlan) -> str:
    spec = plan.spec
    return f"{spec.job_id}  {spec.task.id}  {spec.trainer.id}  {plan.meta.variant}  seed {spec.seed}"


def _print(result: RunResult) -> None:
    width = None
    if sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    shown = any(row.integrity == "unprotected" for row in result.rows)
    emit(leaderboard_text(rank(result.rows, unprotected=shown), width=width, colour=width is not None).rstrip("\n"))
    if shown:
        emit("All jobs of this run are unprotected: a candidate could have written its own score.")
    failed = [row for row in result.rows if row.status == "failed"]
    emit()
    emit(
        f"{len(result.rows) - len(failed)} of {result.planned} jobs ok" + (f", {len(failed)} failed" if failed else "")
    )
    emit(f"run         {result.run_id}")
    for label, path in (
        ("folder", result.layout.root),
        ("results", result.layout.results_csv),
        ("leaderboard", result.layout.leaderboard),
    ):
        emit(f"{label:<11} {path}")


def _as_json(result: RunResult) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "folder": str(result.layout.root),
        "planned": result.planned,
        "ok": result.ok,
        "jobs": [row.model_dump(mode="json") for row in result.rows],
    }
