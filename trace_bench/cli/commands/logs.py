"""``logs``: print the journal of a run or the output of a job, and follow it."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from trace_bench.cli import collect_garbage
from trace_bench.cli.follow import INTERVAL, Audience, GrowingFile
from trace_bench.cli.options import RUNS, JobArgument, Json, RunArgument, RunsDir, whole_number
from trace_bench.display.console import emit, emit_block, note
from trace_bench.display.text import escape_tabbed, quoted
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.artifacts.layout import RunLayout
    from trace_bench.artifacts.records import ManifestEntry

Print = Callable[[bytes], None]
"""Prints one line of a file."""


def logs(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the run, or the job, has ended.")] = False,
    lines: Annotated[
        int | None,
        Option("--lines", "-n", metavar="NUMBER", parser=whole_number, help="Begin with the last lines only."),
    ] = None,
    events: Annotated[bool, Option("--events", help="Print the job's events instead of its output.")] = False,
    as_json: Json = False,
) -> None:
    """Print the journal of a run, or the output of one of its jobs.

    Example: trace-bench logs latest --follow
    """
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.cli.lookup import jobs_named
    from trace_bench.records.runs import find_run

    if lines is not None and lines < 0:
        raise ConfigError(f"--lines is {lines}; give 0 or more")
    layout = find_run(run, runs_dir)
    if job is None:
        if events:
            raise ConfigError("--events chooses between the two logs of a job; name a job, or leave it out")
        goes_on = (lambda: has_controller(layout)) if follow else None
        _print_lines(GrowingFile(layout.events), _event_printer(as_json), lines, goes_on)
        return
    (entry,) = jobs_named(layout, [job])
    files = layout.job(entry.job_id)
    path = files.events if events else files.stdout
    goes_on = _job_goes_on(layout, entry) if follow else None
    if not path.exists() or path.stat().st_size == 0:
        yet = " yet" if goes_on is not None and goes_on() else ""
        note(f"job {entry.job_id} has written no {'events' if events else 'output'}{yet}")
    printer = _event_printer(as_json) if events else _output_printer(entry.job_id, as_json)
    _print_lines(GrowingFile(path), printer, lines, goes_on)


def _print_lines(file: GrowingFile, printer: Print, lines: int | None, goes_on: Callable[[], bool] | None) -> None:
    """Print the last `lines` of `file` (None: all), then its new lines until `goes_on` returns False."""
    audience, again = Audience(), 0  # before the first line: its reader may leave after it
    last = deque(file.lines(), maxlen=lines)
    if goes_on is None and (rest := file.rest()):
        last.append(rest)
    for raw in last:
        printer(raw)
    if goes_on is None:
        return
    collect_garbage()
    while True:
        more = goes_on()  # before the read, which gets the last lines of a run that has ended
        for raw in file.lines():
            printer(raw)
        if file.began_again > again:
            again = file.began_again
            note(f"{file.path} has become shorter: the lines above are its new content")
        if not more or audience.gone():
            break
        time.sleep(INTERVAL)
    if rest := file.rest():
        printer(rest)


def _job_goes_on(layout: RunLayout, entry: ManifestEntry) -> Callable[[], bool]:
    """True while there is a controller that runs the job, or has yet to start it."""
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.artifacts.jsonio import json_objects
    from trace_bench.records.job_states import RunProgress

    journal, progress = GrowingFile(layout.events), RunProgress()
    over = False

    def goes_on() -> bool:
        nonlocal over
        there = has_controller(layout)
        for line in json_objects(journal.lines()):
            progress.add(line)
            if line.get("event") == "run.start":
                over = False
            elif line.get("job_id") == entry.job_id:
                over = line.get("event") == "job.end"
        waits = entry.decision in ("run", "adopt") and entry.job_id not in progress.started_jobs
        return there and not over and (waits or entry.job_id in progress.open_jobs)

    return goes_on


# ------------------------------------------------------------------------------------------------------- printing


def _event_printer(as_json: bool) -> Print:
    from trace_bench.artifacts.jsonio import JsonError, loads

    def print_event(raw: bytes) -> None:
        try:
            value = loads(raw)
        except JsonError as error:
            note(f"left out, not an event ({error}): {_text(raw)[:200]}")
            return
        if as_json:
            emit(json.dumps(value))
        elif isinstance(value, dict):
            emit(_event_line(value))
        else:
            emit_block(_text(raw))

    return print_event


def _event_line(event: Mapping[str, Any]) -> str:
    """Time, event, job, and the other fields."""
    t = event.get("t")
    words = [f"{t:9.3f}" if isinstance(t, int | float) else _field(t)]
    words.append(_field(event.get("event")).ljust(11))
    if job_id := event.get("job_id"):
        words.append(_field(job_id))
    words.append(" ".join(f"{k}={_field(v)}" for k, v in event.items() if k not in ("t", "event", "job_id")))
    return "  ".join(words).rstrip()


def _field(value: object) -> str:
    plain = isinstance(value, str) and value and not any(c.isspace() or c in '"=' for c in value)
    return quoted(value if plain else json.dumps(value, ensure_ascii=False), 2000)


def _output_printer(job_id: str, as_json: bool) -> Print:
    def print_output(raw: bytes) -> None:
        if as_json:
            emit(json.dumps({"job_id": job_id, "text": raw.decode("utf-8", "replace")}))
        else:
            emit_block(_text(raw))

    return print_output


def _text(raw: bytes) -> str:
    return escape_tabbed(raw.decode("utf-8", "replace").removesuffix("\r"))
