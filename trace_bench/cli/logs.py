"""``logs``: what a run or a job has said, and goes on saying."""

from __future__ import annotations

import gc
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import JsonError, loads, printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ManifestEntry
from trace_bench.cli.follow import INTERVAL, Audience, GrowingFile
from trace_bench.cli.lookup import jobs_named
from trace_bench.cli.output import emit, note
from trace_bench.errors import ConfigError
from trace_bench.planning.ownership import has_controller
from trace_bench.records.job_states import Course
from trace_bench.records.runs import find_run

Show = Callable[[bytes], None]
"""Prints one line of a file."""


def print_log(
    run: str, job: str | None, runs_dir: Path, *, follow: bool, lines: int | None, events: bool, as_json: bool
) -> None:
    """Print the journal of a run, or the output (`events`: the events) of one of its jobs.

    Args:
        follow: go on until the run, or the job, has ended.
        lines: how many of what is there already; None is all of them.

    Raises:
        ConfigError: there is no such run or job.
    """
    if lines is not None and lines < 0:
        raise ConfigError(f"--lines is {lines}; give 0 or more")
    layout = find_run(run, runs_dir)
    if job is None:
        if events:
            raise ConfigError("--events chooses between the two logs of a job; name a job, or leave it out")
        _print(GrowingFile(layout.events), _event(as_json), lines, _run_goes_on(layout) if follow else None)
        return
    (entry,) = jobs_named(layout, [job])
    job_id, files = entry.job_id, layout.job(entry.job_id)
    path = files.events if events else files.stdout
    goes_on = _job_goes_on(layout, entry) if follow else None
    if not path.exists() or path.stat().st_size == 0:
        note(
            f"job {job_id} has written no {'events' if events else 'output'}"
            + (" yet" if goes_on is not None and goes_on() else "")
        )
    _print(GrowingFile(path), _event(as_json) if events else _output(job_id, as_json), lines, goes_on)


def _print(file: GrowingFile, show: Show, lines: int | None, goes_on: Callable[[], bool] | None) -> None:
    """What is there, and until `goes_on` says no, what is added."""
    audience, again = Audience(), 0  # before the first line, which may be the last that somebody reads
    there = deque(file.lines(), maxlen=lines)
    if goes_on is None and (rest := file.rest()):
        there.append(rest)
    for raw in there:
        show(raw)
    if goes_on is None:
        return
    gc.enable()  # this may take hours
    while True:
        more = goes_on()  # asked first: what was written before it ended is read below
        for raw in file.lines():
            show(raw)
        if file.began_again > again:
            again = file.began_again
            note(f"{printable(str(file.path), 4096)} has become shorter: this is its new content")
        if not more or audience.gone():
            break
        time.sleep(INTERVAL)
    if rest := file.rest():
        show(rest)


def _run_goes_on(layout: RunLayout) -> Callable[[], bool]:
    return lambda: has_controller(layout)


def _job_goes_on(layout: RunLayout, entry: ManifestEntry) -> Callable[[], bool]:
    """True while a controller is there that runs the job, or has yet to start it."""
    journal, course = GrowingFile(layout.events), Course()
    over = False

    def goes_on() -> bool:
        nonlocal over
        there = has_controller(layout)
        for line in _objects(journal):
            course.take(line)
            if line.get("event") == "run.start":
                over = False
            elif line.get("job_id") == entry.job_id:
                over = line.get("event") == "job.end"
        waits = entry.decision in ("run", "adopt") and entry.job_id not in course.seen
        return there and not over and (waits or entry.job_id in course.open)

    return goes_on


def _objects(journal: GrowingFile) -> Iterator[dict[str, Any]]:
    for raw in journal.lines():
        try:
            value = loads(raw)
        except JsonError:
            continue
        if isinstance(value, dict):
            yield value


# ------------------------------------------------------------------------------------------------------- printing


def _event(as_json: bool) -> Show:
    def show(raw: bytes) -> None:
        try:
            value = loads(raw)
        except JsonError as error:
            note(f"left out, as it is no event ({error}): {_safe(raw)[:200]}")
            return
        if as_json:
            emit(json.dumps(value))
        else:
            emit(_event_line(value) if isinstance(value, dict) else _safe(raw))

    return show


def _event_line(event: Mapping[str, Any]) -> str:
    """Time, event, job, and the other fields."""
    t = event.get("t")
    time_ = f"{t:9.3f}" if isinstance(t, int | float) else printable(str(t), 40)
    job = printable(str(event.get("job_id", "")), 40)
    fields = [f"{printable(k, 60)}={_field(v)}" for k, v in event.items() if k not in ("t", "event", "job_id")]
    words = [time_, printable(str(event.get("event")), 100).ljust(11), *([job] if job else []), " ".join(fields)]
    return "  ".join(words).rstrip()


def _field(value: object) -> str:
    plain = isinstance(value, str) and value and not any(c.isspace() or c in '"=' for c in value)
    return printable(str(value) if plain else json.dumps(value, ensure_ascii=False), 2000)


def _output(job_id: str, as_json: bool) -> Show:
    def show(raw: bytes) -> None:
        if as_json:
            emit(json.dumps({"job_id": job_id, "text": raw.decode("utf-8", "replace")}))
        else:
            emit(_safe(raw))

    return show


def _safe(raw: bytes) -> str:
    """A line of hostile bytes for a terminal: tabs stay, all else that is not printable is escaped."""
    text = raw.decode("utf-8", "replace").removesuffix("\r")
    return "\t".join(printable(part, 10 * len(part) + 10) for part in text.split("\t"))
