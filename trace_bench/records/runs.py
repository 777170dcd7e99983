"""Runs on the disk: found by what a user types, and told in one line each. Nothing here writes.

A line is told from the small files of a run (lock, summary, both ends of the manifest and of the journal), so that a
folder of many large runs is listed at once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_bench.arguments import hint
from trace_bench.artifacts.derived import Summary
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Lock
from trace_bench.artifacts.versions import FIRST, NewerRun, check_version, read_versioned
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.records.reading import read_optional

State = Literal["running", "finished", "unfinished", "planned", "damaged", "newer"]
"""``running``: a controller is at work. ``finished``: every job has an ending that counts. ``unfinished``: it can be
continued. ``planned``: no job was ever started. ``damaged``: a file is not what it should be. ``newer``:
a later version of this program wrote it, and this one cannot read it."""

LATEST = "latest"
NO_RUN = "it has no meta/ with a manifest, so it is no run"
NO_FOLDER = "it is a file, and a run is a folder: an archive of one becomes that with trace-bench import"
_HEAD = 4096
_TAIL = 64
_JOURNAL_TAIL = 1 << 16
_MANY = 5
"""Names listed in a sentence at most."""


class AmbiguousRun(ConfigError):
    """The beginning of more than one run's id."""


@dataclass(frozen=True)
class RunLine:
    """One run in short.

    Attributes:
        run_id: the folder's name, by which `find_run` finds it.
        jobs: planned ones.
        skipped: those that a controller has ended without.
        interrupted: those that were cut off, and run again when the run is continued.
        infrastructure: those of `failed` that failed at provider, sandbox or harness.
        flagged, unprotected: those whose scores are to be looked at, and those that a candidate could have written.
        started_at: of the first controller; None if there never was one.
        cost_usd: over all jobs that have ended.
        replay_of: the run whose recorded calls it answers with; empty for one that is no replay.
        damage: what is wrong, for ``damaged`` and ``newer``.
    """

    layout: RunLayout
    run_id: str
    name: str
    state: State
    jobs: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    interrupted: int = 0
    infrastructure: int = 0
    flagged: int = 0
    unprotected: int = 0
    started_at: str | None = None
    cost_usd: float = 0.0
    replay_of: str = ""
    damage: str | None = None

    @property
    def done(self) -> int:
        """Jobs with a result that was not cut off."""
        return self.ok + self.failed


@dataclass(frozen=True)
class _Head:
    """The first keys of a manifest."""

    run_id: str
    config_hash: str
    generated_at: str
    schema_version: int = FIRST


# ------------------------------------------------------------------------------------------------------- finding


def is_run(folder: Path) -> bool:
    """True if `folder` has what every run has from its first moment on, or what is left of it."""
    run = RunLayout(folder)
    known = (run.manifest, run.lock, run.config_snapshot, run.jobs)
    return _is_there(run.meta) and any(map(_is_there, known))


def all_runs(runs_dir: Path) -> list[RunLayout]:
    """The runs in `runs_dir`, of which there are none where there is no such folder. Those come first that a controller
    is at work in, then by their last start, the newest first; at last the ones that never started.

    Raises:
        ConfigError: it is a file.
    """
    if not runs_dir.is_dir():
        if not _is_there(runs_dir):
            return []
        raise ConfigError(f"{runs_dir}: is a file; name the folder of your runs with --runs-dir")
    # A hidden one is being removed.
    found = [RunLayout(folder) for folder in runs_dir.iterdir() if not folder.name.startswith(".") and is_run(folder)]
    return sorted(found, key=_age, reverse=True)


def find_run(text: str, runs_dir: Path) -> RunLayout:
    """The run that `text` means: an id in `runs_dir` or the beginning of only one, a run's folder, or ``latest``,
    the first of `all_runs`.

    Raises:
        ConfigError: no run, or more than one.
    """
    exact = exact_run(text, runs_dir)
    if exact is not None:
        return exact
    if not text:
        raise ConfigError(f"the name of the run is empty; name a run by its folder, by its id in {runs_dir}, or latest")
    if "\0" in text or "/" in text or text in (".", ".."):
        what = _no_run(Path(text)) if _is_there(Path(text)) else "there is no such folder"
        raise ConfigError(f"{text!r}: {what}; name a run by its folder, or by its id in {runs_dir}")
    runs = all_runs(runs_dir)
    if text == LATEST:
        if not runs:
            raise ConfigError(f"there are no runs in {runs_dir}; trace-bench run makes one")
        return runs[0]
    begin = [run for run in runs if run.run_id.startswith(text)]
    if len(begin) > 1:
        raise AmbiguousRun(
            f"{text!r} is the beginning of {len(begin)} runs in {runs_dir} ({_some(begin)}); give more of it"
        )
    if begin:
        return begin[0]
    for place in (runs_dir / text, Path(text)):
        if _is_there(place):
            raise ConfigError(f"{place}: {_no_run(place)}{_known(runs)}")
    near = hint(text, [run.run_id for run in runs]) if len(runs) > _MANY else ""
    raise ConfigError(f"there is no run {text!r} in {runs_dir}{near or _known(runs)}")


def exact_run(text: str, runs_dir: Path) -> RunLayout | None:
    """The run whose id or folder is `text`, or None."""
    if not text or "\0" in text:
        return None
    places = [Path(text)] if "/" in text or text in (".", "..") else [runs_dir / text, Path(text)]
    for place in places:
        if is_run(place):
            # Its name is its id, which "." does not tell; a link may have another.
            return RunLayout(place if place.name and not place.is_symlink() else place.resolve())
    return None


def find_job(text: str, job_ids: Iterable[str], run_id: str) -> str:
    """The one of `job_ids` that `text` is, or is the beginning of.

    Raises:
        ConfigError: none, or more than one.
    """
    known = list(job_ids)
    begin = [job_id for job_id in known if text and job_id.startswith(text)]
    if len(begin) == 1 or text in begin:
        return text if text in begin else begin[0]
    if begin:
        names = ", ".join(begin[:_MANY]) + (" …" if len(begin) > _MANY else "")
        raise ConfigError(f"{text!r} is the beginning of {len(begin)} jobs of run {run_id} ({names}); give more of it")
    near = hint(text, known) if known else "; it has no jobs"
    if not near or (near.startswith("; known") and len(known) > _MANY):
        near = f"; trace-bench show {run_id} lists its jobs"
    raise ConfigError(f"there is no job {text!r} in run {run_id}{near}")


def _no_run(path: Path) -> str:
    return NO_FOLDER if path.is_file() else NO_RUN


def _is_there(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        return path.exists()
    return False


def _known(runs: list[RunLayout]) -> str:
    if not runs:
        return "; there are no runs; trace-bench run makes one"
    return f"; the newest are {_some(runs)}" if len(runs) > _MANY else f"; there are {_some(runs)}"


def _some(runs: list[RunLayout]) -> str:
    return ", ".join(run.run_id for run in runs[:_MANY]) + (" …" if len(runs) > _MANY else "")


def _age(run: RunLayout) -> tuple[bool, bool, str, str]:
    running = has_controller(run)
    try:
        started = _last_start(run)
        head = _head(run) if started is None else None
    except HarnessError:
        return running, False, "", run.run_id
    when = started or (head.generated_at if head else "")
    return running, started is not None, when.removesuffix("Z"), run.run_id


# ------------------------------------------------------------------------------------------------------- telling


def describe(run: RunLayout, has_controller: Callable[[RunLayout], bool]) -> RunLine:
    """`run` in one line. What is damaged is told, not raised."""
    running = has_controller(run)
    try:
        return _describe(run, running=running)
    except NewerRun as error:
        return RunLine(run, run.run_id, _name(run), "running" if running else "newer", damage=str(error))
    except HarnessError as error:
        return RunLine(run, run.run_id, _name(run), "running" if running else "damaged", damage=str(error))


def run_id_of(run: RunLayout) -> str:
    """The id that the run's sandboxes are labelled with: the manifest's, as a folder may have been renamed."""
    try:
        head = _head(run)
    except HarnessError:
        head = None
    return head.run_id if head else run.run_id


def _describe(run: RunLayout, *, running: bool) -> RunLine:
    head = _head(run)
    if head is None and not running:
        raise HarnessError(f"{run.manifest}: it is missing")
    if head is not None:
        check_version(head.schema_version, run.manifest)
    started = _started_at(run)
    lock = _lock(run)
    if lock is None and not running:
        raise HarnessError(f"{run.lock}: it is missing")
    summary = read_optional(Summary, run.summary)
    counts = summary.counts if summary else {}
    total = summary.total_jobs if summary else _planned(run) if head else 0
    state: State
    if running:
        state = "running"
    elif started is None:
        state = "planned"
    else:
        # It is published when no job can profit from it any more.
        state = "finished" if lock is not None and lock.salt is not None else "unfinished"
    return RunLine(
        run,
        run.run_id,
        _name(run),
        state,
        jobs=total,
        ok=counts.get("ok", 0),
        failed=counts.get("failed", 0),
        skipped=counts.get("skipped", 0),
        interrupted=counts.get("interrupted", 0),
        infrastructure=summary.infrastructure_failures if summary else 0,
        flagged=summary.flagged_jobs if summary else 0,
        unprotected=summary.unprotected_jobs if summary else 0,
        started_at=started,
        cost_usd=summary.cost_usd if summary else 0.0,
        replay_of=_replay_of(run),
    )


def _lock(run: RunLayout) -> Lock | None:
    try:
        return read_versioned(Lock, run.lock)
    except FileNotFoundError:
        return None


def _head(run: RunLayout) -> _Head | None:
    """The manifest's first keys; None if there is no manifest.

    Raises:
        HarnessError: they or its end are not there.
    """
    try:
        with run.manifest.open("rb") as file:
            start = file.read(_HEAD)
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            end = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"{run.manifest}: {error.strerror}") from None
    found = []
    for key in ("run_id", "config_hash", "generated_at"):
        value = re.search(rb'"%s"\s*:\s*"([^"\\]*)"' % key.encode(), start)
        if value is None:
            raise HarnessError(f"{run.manifest}: it does not begin like a manifest ({key} is missing)")
        found.append(value[1].decode("utf-8", "replace"))
    if not end.rstrip().endswith(b"}"):
        raise HarnessError(f"{run.manifest}: its end is missing")
    # Of a key of its own, and not of one of the first job's.
    version = re.search(rb'"schema_version"\s*:\s*(\d{1,9})\b', start.split(b'"jobs"', 1)[0])
    return _Head(found[0], found[1], found[2], int(version[1]) if version else FIRST)


def _planned(run: RunLayout) -> int:
    """How many jobs the manifest has: read whole, which only a run without a summary needs."""
    try:
        return len(loads(run.manifest.read_bytes())["jobs"])
    except (OSError, JsonError, KeyError, TypeError) as error:
        raise HarnessError(f"{run.manifest}: {error}") from None


def _started_at(run: RunLayout) -> str | None:
    """Time of the journal's first line; None before there is a whole one."""
    try:
        with run.events.open("rb") as file:
            line = file.readline(_HEAD)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"{run.events}: {error.strerror}") from None
    return _time_of_first(run, line) if line.endswith(b"\n") else None


def _last_start(run: RunLayout) -> str | None:
    """Time of the journal's last ``run.start``; where the journal's end has none, that at which the manifest was
    made, which every start does anew. None before there was a start."""
    first = _started_at(run)
    if first is None:
        return None
    try:
        with run.events.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _JOURNAL_TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError as error:
        raise HarnessError(f"{run.events}: {error.strerror}") from None
    for line in reversed(lines):
        if b'"run.start"' in line:
            with contextlib.suppress(JsonError):
                value = loads(line)
                if isinstance(value, dict) and value.get("event") == "run.start" and isinstance(value.get("t"), str):
                    return str(value["t"])
    head = _head(run)
    return max(first, head.generated_at) if head else first


def _time_of_first(run: RunLayout, line: bytes) -> str:
    try:
        value = loads(line)
    except JsonError as error:
        raise HarnessError(f"{run.events}, line 1: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("t"), str):
        raise HarnessError(f"{run.events}, line 1: it is no event with a time")
    return str(value["t"])


def _name(run: RunLayout) -> str:
    """`name` of the config; empty if it has none."""
    return _setting(run, "name")


def _replay_of(run: RunLayout) -> str:
    """Name of the run that a replay repeats; empty for a run that is none."""
    return Path(_setting(run, "replay_from")).name if _setting(run, "mode") == "replay" else ""


def _setting(run: RunLayout, key: str) -> str:
    """A text of the config; empty if there is none. Only that key of the snapshot is parsed."""
    try:
        text = run.config_snapshot.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{key}:.*(?:\n[ \t]+.*)*", text, re.MULTILINE)
    if found is None or found[0].strip() in (f"{key}:", f"{key}: null"):
        return ""
    import yaml

    try:
        value = yaml.safe_load(found[0])[key]
    except (yaml.YAMLError, TypeError, KeyError):
        return ""
    return value if isinstance(value, str) else ""
