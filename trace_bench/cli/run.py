"""Read the config of ``run``, run it with a display, print its outcome, and say how to continue it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cancellation import Cancellation
from trace_bench.cli.displays import Display, JsonLines, Lines
from trace_bench.cli.outcome import print_outcome
from trace_bench.cli.signals import RunInterrupted, StopOnSignals
from trace_bench.config import load_config, parse_config
from trace_bench.config.models import RunConfig
from trace_bench.display.console import note, note_block, takes_escapes
from trace_bench.display.log import logged_aside
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.start import run_config
from trace_bench.mirrors.attached import mirrored, with_warnings
from trace_bench.planning.recording import find_recording
from trace_bench.planning.search_costs import DEFAULT_CALLS, searches
from trace_bench.records.replay_check import sentences
from trace_bench.records.rows import is_final
from trace_bench.trainers.registry import load_trainer


@dataclass(frozen=True)
class DisplayOptions:
    """The options of the display of a run. `verbosity` is the number of ``-v``."""

    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError if options contradict each other."""
        if self.verbosity and (self.quiet or self.as_json):
            other = "--quiet" if self.quiet else "--json"
            raise ConfigError(f"--verbose and {other} contradict each other; give one of them")

    def say(self, text: str) -> None:
        """Print `text` to stderr, unless that is to be quiet."""
        if not self.quiet:
            note(text)


def run_and_show(config: RunConfig, shown: DisplayOptions, *, roots: Sequence[Path], build: bool) -> int:
    """Run `config` with a display of its events, and print its outcome; returns the exit code.

    Args:
        roots: extra folders with task folders.
        build: build images that are missing; False refuses.

    Raises:
        TraceBenchError: with its own exit code.
    """
    display = display_for(shown, config.warnings)
    stop = StopOnSignals(display.alert)
    log = logged_aside(lambda line: display.note(f"log    {line}")) if shown.verbosity > 1 else contextlib.nullcontext()
    with mirrored(config, display.notify, note) as subscriber, log, _closed(display, config), stop:
        result = run_config(
            config, roots=roots, build=build, subscriber=subscriber, say=shown.say, stop=Cancellation(stop.wanted)
        )
    code = ExitCode.OK if result.ok else ExitCode.JOB_FAILED
    display.close(code)
    if not shown.as_json:
        _print_outcome(config, result.layout, result.rows, result.planned)
    left = result.planned - sum(map(is_final, result.rows))
    if result.replay is not None:
        for line in sentences(result.replay):
            note(line)
    elif left:
        budget = "with a larger budget.run, " if any(map(_out_of_budget, result.rows)) else ""
        note(f"{left} of {result.planned} jobs did not finish; {budget}{_continuing(config, result.run_id)}")
    return int(code)


def _print_outcome(config: RunConfig, layout: RunLayout, rows: Sequence[Results], planned: int) -> None:
    print_outcome(layout, rows, planned, taken="recorded" if config.mode == "replay" else "spent")


def read_config(
    path: Path | None, overrides: Mapping[str, Any], *, replay: str | None, accept_drift: bool
) -> RunConfig:
    """Read and check the config to run, and print its warnings.

    Args:
        replay: the run whose answers are given again. Without a `path` it is that run's own config.

    Raises:
        ConfigError: the config is wrong, or there is no such run to replay, or a file is in the place of the folder of
            runs. EnvironmentUnavailable: there is no right to write there.
    """
    config = with_warnings(_config(path, overrides, replay), os.environ)
    if accept_drift:
        config = config.model_copy(update={"images": config.images.model_copy(update={"accept_drift": True})})
    check_runs_dir(config)
    for warning in config.warnings:
        note_block(f"warning: {warning}")
    return config


def _config(path: Path | None, overrides: Mapping[str, Any], replay: str | None) -> RunConfig:
    if path is None and replay is None:
        if "task" not in overrides:
            raise ConfigError("nothing is named to run; name a config, or tasks with -t; see trace-bench run --help")
        return parse_config({}, with_default_budget(overrides), file="command line")
    if path is not None:
        given = {"mode": "replay", "replay_from": replay} if replay is not None else {}
        return load_config(path, {**overrides, **given})
    runs_dir = Path(str(overrides.get("runs_dir", RunConfig.model_fields["runs_dir"].default)))
    return find_recording(replay or "", runs_dir, "option --replay").config_alone(overrides)


def with_default_budget(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a run without a config. Several searches without a budget get one, which is printed: by their own
    parameters one asks the model ten times as often as another."""
    names = set(overrides.get("trainer", ()))
    if "budget" in overrides or len(names) < 2:
        return overrides
    with contextlib.suppress(ConfigError):  # of a name that is wrong, which is said with all else that is
        if sum(searches(load_trainer(name)) for name in names) > 1:
            note(
                f"budget: calls={DEFAULT_CALLS} for each job, as several trainers are compared and none is given; "
                "--budget sets another, and --budget none lets each go on as long as its parameters say"
            )
            return {**overrides, "budget": f"calls={DEFAULT_CALLS}"}
    return overrides


def _out_of_budget(row: Results) -> bool:
    return row.cut_by_run_budget or (row.status == "skipped" and row.feedback.startswith("the run's budget of "))


def display_for(
    shown: DisplayOptions, shown_warnings: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
) -> Display:
    """Make the display of a run: the live table on a terminal, else lines.

    Args:
        clock: returns seconds; another one for a run that is shown after its start.
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
    """Check that runs can be written, before images are built and sandboxes made.

    Raises:
        ConfigError: a file is in the place of the folder. EnvironmentUnavailable: there is no right to write there.
    """
    folder = Path(config.runs_dir).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise ConfigError(f"{config.source.where(('runs_dir',))}: {there} is no folder; name another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise EnvironmentUnavailable(f"{there} cannot be written; name another folder with --runs-dir")


@contextlib.contextmanager
def _closed(display: Display, config: RunConfig) -> Iterator[None]:
    """Close `display` if the run ends in an error; of an interrupted run, print the outcome."""
    try:
        with errors_of_machine(config):
            yield
    except Interrupted as interrupted:
        error = RunInterrupted(_how_to_continue(interrupted, display, config))
        display.close(error.exit_code, str(error))
        if display.start is not None and display.end is not None and not isinstance(display, JsonLines):
            _print_outcome(config, display.start.layout, display.end.rows, len(display.start.jobs))
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
def errors_of_machine(config: RunConfig) -> Iterator[None]:
    """Make an error of the machine a sentence that says how to go on.

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
    """The message of an interruption; with the run's id if the same command would begin again."""
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
