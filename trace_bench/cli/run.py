"""``run``: a config becomes a finished run and a leaderboard."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.records import Results
from trace_bench.cli import collect_garbage
from trace_bench.cli.displays import Display, JsonLines, Lines
from trace_bench.cli.outcome import print_outcome, print_plan, print_plan_json
from trace_bench.cli.outlook import outlook_json, print_outlook
from trace_bench.cli.output import note
from trace_bench.cli.signals import RunInterrupted, StopOnSignals
from trace_bench.cli.tables import takes_escapes
from trace_bench.config import load_config, parse_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.events import Subscriber
from trace_bench.execution.outlook import outlook_of
from trace_bench.execution.start import dry_run, run_config
from trace_bench.mirrors.attached import mirrored, with_warnings
from trace_bench.planning.recording import find_recording
from trace_bench.records.replay_check import sentences
from trace_bench.records.rows import is_final

_TAKEN = {"replay": "recorded"}
"""By mode, what calls, tokens and cost of a run are called; not given, they were spent."""


@dataclass(frozen=True)
class Shown:
    """What is shown, and how. `verbosity` is the number of ``-v``."""

    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0

    def __post_init__(self) -> None:
        """
        Raises:
            ConfigError: options that contradict each other.
        """
        if self.verbosity and (self.quiet or self.as_json):
            other = "--quiet" if self.quiet else "--json"
            raise ConfigError(f"--verbose and {other} contradict each other; give one of them")


def run_command(
    path: Path | None,
    overrides: Mapping[str, Any],
    *,
    replay: str | None,
    roots: Sequence[Path],
    build: bool,
    accept_drift: bool,
    only_plan: bool,
    shown: Shown,
) -> int:
    """Run the config at `path`, or with `only_plan` say what that would do; returns the exit code.

    Args:
        replay: the run whose answers are given again. Without a `path` it is that run's own config.

    Raises:
        TraceBenchError: with its own exit code.
    """
    collect_garbage()
    config = with_warnings(_config(path, overrides, replay), os.environ)
    if accept_drift:
        config = config.model_copy(update={"images": config.images.model_copy(update={"accept_drift": True})})
    check_runs_dir(config)
    for warning in config.warnings:
        note(f"warning: {warning}")
    say: Callable[[str], None] = (lambda _: None) if shown.quiet else note
    if only_plan:
        return _plan(config, roots=roots, build=build, say=say, as_json=shown.as_json)
    display = display_for(shown, config.warnings)
    with mirrored(config, display.notify, note) as subscriber:
        return _run(config, display, subscriber, roots=roots, build=build, say=say, as_json=shown.as_json)


def _run(
    config: RunConfig,
    display: Display,
    subscriber: Subscriber,
    *,
    roots: Sequence[Path],
    build: bool,
    say: Callable[[str], None],
    as_json: bool,
) -> int:
    """Run `config`, shown by `display`, to which `subscriber` passes all events on; returns the exit code."""
    stop = StopOnSignals(display.alert)
    with _closed(display, config), stop:
        result = run_config(config, roots=roots, build=build, subscriber=subscriber, say=say, stop_wanted=stop.wanted)
    code = ExitCode.OK if result.ok else ExitCode.JOB_FAILED
    display.close(code)
    if not as_json:
        print_outcome(result.layout, result.rows, result.planned, taken=_TAKEN.get(config.mode, "spent"))
    if result.replay is not None:
        for line in sentences(result.replay):
            note(line)
        return int(code)
    left = result.planned - sum(map(is_final, result.rows))
    if left:
        note(
            f"{left} of {result.planned} jobs {'has' if left == 1 else 'have'} no ending that counts; "
            f"{'with a larger budget.run, ' if any(map(_out_of_budget, result.rows)) else ''}"
            f"{_continuing(config, result.run_id)}"
        )
    return int(code)


def _config(path: Path | None, overrides: Mapping[str, Any], replay: str | None) -> RunConfig:
    """
    Raises:
        ConfigError: the config is wrong, or there is no such run to replay.
    """
    if path is None and replay is None:
        if "task" not in overrides:
            raise ConfigError("nothing is named to run; name a config, or tasks with -t; see trace-bench run --help")
        return parse_config({}, overrides, file="command line")
    if path is not None:
        given = {"mode": "replay", "replay_from": replay} if replay is not None else {}
        return load_config(path, {**overrides, **given})
    runs_dir = Path(str(overrides.get("runs_dir", RunConfig.model_fields["runs_dir"].default)))
    return find_recording(replay or "", runs_dir, "option --replay").config_alone(overrides)


def _out_of_budget(row: Results) -> bool:
    return row.cut_by_run_budget or (row.status == "skipped" and row.feedback.startswith("the run's budget of "))


def _plan(config: RunConfig, *, roots: Sequence[Path], build: bool, say: Callable[[str], None], as_json: bool) -> int:
    with _sentences(config):
        plan = dry_run(config, roots=roots, build=build, say=say)
    outlook = outlook_of(plan)
    named = plan.continued or config.run_id is not None  # any other run is called by the time of its start
    if as_json:
        layout, more = plan.layout, outlook_json(plan, outlook)
        paths = {
            "run_id": layout.run_id if named else None,
            "folder": str(layout.root) if named else None,
            "manifest": str(layout.manifest) if plan.continued else None,
        }
        print_plan_json(plan.jobs, paths, continued=plan.continued, warnings=plan.warnings, more=more)
        return int(ExitCode.OK)
    for warning in plan.warnings:
        if warning not in config.warnings:
            note(f"warning: {warning}")
    if plan.continued:
        layout = plan.layout
        print_plan(plan.jobs, {"run": layout.run_id, "folder": layout.root, "manifest": layout.manifest})
    else:
        print_plan(plan.jobs, {"run": f"{plan.run_id} (new)" if named else "a new one"})
    print_outlook(plan, outlook)
    return int(ExitCode.OK)


def display_for(
    shown: Shown, shown_warnings: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
) -> Display:
    """The live table on a terminal, else lines.

    Args:
        clock: seconds; another one for a run that began before anybody looked.
    """
    if shown.as_json:
        return JsonLines(shown_warnings)
    if shown.quiet:
        return Display(shown_warnings)
    if shown.verbosity or not takes_escapes(sys.stderr):
        return Lines(shown_warnings, verbosity=shown.verbosity, clock=clock)
    from trace_bench.cli.live import LiveTable  # rich, which a pipe does not pay for

    return LiveTable(shown_warnings, clock=clock)


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


@contextlib.contextmanager
def _closed(display: Display, config: RunConfig) -> Iterator[None]:
    """Closes `display` where the run ends in an error; an interrupted run prints what it came to."""
    try:
        with _sentences(config):
            yield
    except Interrupted as interrupted:
        error = RunInterrupted(_how_to_continue(interrupted, display, config))
        display.close(error.exit_code, str(error))
        if display.start is not None and display.end is not None and not isinstance(display, JsonLines):
            print_outcome(
                display.start.layout, display.end.rows, len(display.start.jobs), taken=_TAKEN.get(config.mode, "spent")
            )
        raise error from interrupted
    except TraceBenchError as failure:
        display.close(failure.exit_code, str(failure))
        raise
    except KeyboardInterrupt:
        display.close(ExitCode.INTERRUPTED, "interrupted")
        raise
    except BaseException as defect:
        display.close(ExitCode.JOB_FAILED, f"{type(defect).__name__}: {defect}")
        raise


@contextlib.contextmanager
def _sentences(config: RunConfig) -> Iterator[None]:
    """An error of the machine is the user's to correct.

    Raises:
        EnvironmentUnavailable: for an OSError.
    """
    try:
        yield
    except TraceBenchError:  # some of which are an OSError too
        raise
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{error.filename or config.runs_dir}: {error.strerror or error}; what has finished is kept: "
            "correct that, and the same command continues the run"
        ) from error


def _how_to_continue(interrupted: Interrupted, display: Display, config: RunConfig) -> str:
    """What the controller says, unless the same command would begin again."""
    if config.resume != "none" or display.start is None or display.end is None:
        return str(interrupted)
    finished = sum(map(is_final, display.end.rows))
    said = f"interrupted; {finished} of {len(display.start.jobs)} jobs have finished"
    return f"{said}; {_continuing(config, display.start.run_id)}"


def _continuing(config: RunConfig, run_id: str) -> str:
    """How to continue the run `run_id` of `config`."""
    if config.resume == "none":
        return f"--run-id {run_id} --resume auto, without --force, continues the run"
    return f"the same command continues the run, or --run-id {run_id}"
