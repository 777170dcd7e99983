"""Finds runs by what a user types, and summarizes each in one line. Nothing here writes.

A line needs only the small files of a run (lock, summary, both ends of the manifest and of the journal), so that a
folder of many large runs is listed fast.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
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
"""``running``: a controller works in it. ``finished``: every job has finished. ``unfinished``: it can be continued.
``planned``: no job was started. ``damaged``: a file is damaged. ``newer``: a later version of this program wrote it."""

LATEST = "latest"
NO_RUN = "it has no meta/ with a manifest, so it is not a run"
NO_FOLDER = "it is a file, and a run is a folder: an archive of one becomes that with trace-bench import"
_HEAD = 4096
_TAIL = 64
_JOURNAL_TAIL = 1 << 16
_MANY = 5
"""Names that a sentence lists at most."""


class AmbiguousRun(ConfigError):
    """A text that the ids of several runs begin with."""


@dataclass(frozen=True)
class RunLine:
    """A summary of one run.

    Attributes:
        run_id: the name of the folder, by which `find_run` finds it.
        jobs: planned jobs.
        skipped: jobs that were not executed before a controller ended.
        interrupted: jobs that were cut off, and run again when the run is continued.
        infrastructure: jobs of `failed` that failed at provider, sandbox or harness.
        flagged: jobs with integrity flags.
        unprotected: jobs whose candidates could write their own scores.
        started_at: when the first controller started; None if there was none.
        cost_usd: of all jobs that have ended.
        replay_of: the run whose recorded calls answer; empty if it is not a replay.
        damage: the problem of a run that is ``damaged`` or ``newer``.
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
        """Number of jobs with a result that was not cut off."""
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
    """Whether `folder` is a run, also a new or a damaged one."""
    run = RunLayout(folder)
    known = (run.manifest, run.lock, run.config_snapshot, run.jobs)
    return _is_there(run.meta) and any(map(_is_there, known))


def all_runs(runs_dir: Path) -> list[RunLayout]:
    """The runs in `runs_dir`; none if the folder does not exist.

    Runs in which a controller works come first, then those that were started last. Runs that never started are last.

    Raises:
        ConfigError: it is a file.
    """
    if not runs_dir.is_dir():
        if not _is_there(runs_dir):
            return []
        raise ConfigError(f"{runs_dir}: is a file; name the folder of your runs with --runs-dir")
    # A hidden folder is being removed.
    found = [RunLayout(folder) for folder in runs_dir.iterdir() if not folder.name.startswith(".") and is_run(folder)]
    return sorted(found, key=_age, reverse=True)


def find_run(text: str, runs_dir: Path) -> RunLayout:
    """Find a run by its id in `runs_dir` or a unique beginning of it, by its folder, or by ``latest``: the first of
    `all_runs`.

    Raises:
        ConfigError: no run matches, or more than one does.
    """
    exact = exact_run(text, runs_dir)
    if exact is not None:
        return exact
    if not text:
        raise ConfigError(f"the name of the run is empty; name a run by its folder, by its id in {runs_dir}, or latest")
    if "\0" in text or "/" in text or text in (".", ".."):
        what = _no_run(Path(text)) if _is_there(Path(text)) else "no such folder"
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
    """Find a run by its whole id or its folder; None if there is none."""
    if not text or "\0" in text:
        return None
    places = [Path(text)] if "/" in text or text in (".", "..") else [runs_dir / text, Path(text)]
    for place in places:
        if is_run(place):
            # The name of the folder is the id: "." has none, and a link can have another.
            return RunLayout(place if place.name and not place.is_symlink() else place.resolve())
    return None


def find_job(text: str, job_ids: Iterable[str], run_id: str) -> str:
    """Find the one of `job_ids` that is `text`, or begins with it.

    Raises:
        ConfigError: none does, or more than one.
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
    with contextlib.suppress(OSError, ValueError):  # an impossible name
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


# --------------------------------------------------------------------------------------------------- summarizing


def describe(run: RunLayout, *, running: bool = False) -> RunLine:
    """Summarize a run. Damage is reported in the line, not raised.

    Args:
        running: a controller works in the run.
    """
    try:
        return _describe(run, running=running)
    except NewerRun as error:
        return RunLine(run, run.run_id, _setting(run, "name"), "running" if running else "newer", damage=str(error))
    except HarnessError as error:
        return RunLine(run, run.run_id, _setting(run, "name"), "running" if running else "damaged", damage=str(error))


def run_id_of(run: RunLayout) -> str:
    """The id in the manifest, which labels the run's sandboxes. The folder can have been renamed."""
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
    try:
        lock = read_versioned(Lock, run.lock)
    except FileNotFoundError:
        if not running:
            raise HarnessError(f"{run.lock}: it is missing") from None
        lock = None
    summary = read_optional(Summary, run.summary)
    counts = summary.counts if summary else {}
    total = summary.total_jobs if summary else _planned(run) if head else 0
    state: State
    if running:
        state = "running"
    elif started is None:
        state = "planned"
    else:
        # The salt is published when every job has finished.
        state = "finished" if lock is not None and lock.salt is not None else "unfinished"
    return RunLine(
        run,
        run.run_id,
        _setting(run, "name"),
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
        replay_of=Path(_setting(run, "replay_from")).name if _setting(run, "mode") == "replay" else "",
    )


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
        raise HarnessError(f"{run.manifest}: the file is truncated")
    # The key of the manifest, and not of its first job.
    version = re.search(rb'"schema_version"\s*:\s*(\d{1,9})\b', start.split(b'"jobs"', 1)[0])
    return _Head(found[0], found[1], found[2], int(version[1]) if version else FIRST)


def _planned(run: RunLayout) -> int:
    """The number of jobs in the manifest, for a run without a summary. This reads the whole manifest."""
    try:
        return len(loads(run.manifest.read_bytes())["jobs"])
    except (OSError, JsonError, KeyError, TypeError) as error:
        raise HarnessError(f"{run.manifest}: {error}") from None


def _started_at(run: RunLayout) -> str | None:
    """The time of the journal's first line; None if there is no complete line yet."""
    try:
        with run.events.open("rb") as file:
            line = file.readline(_HEAD)
        if not line.endswith(b"\n"):
            return None
        value = loads(line)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"{run.events}: {error.strerror}") from None
    except JsonError as error:
        raise HarnessError(f"{run.events}, line 1: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("t"), str):
        raise HarnessError(f"{run.events}, line 1: it is not an event with a time")
    return str(value["t"])


def _last_start(run: RunLayout) -> str | None:
    """The time of the journal's last ``run.start``; None before the first start.

    If the end of the journal has none, it is the time of the manifest, which is made again at every start."""
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


def _setting(run: RunLayout, key: str) -> str:
    """A text key of the config; empty if there is none. Only this key of the snapshot is parsed."""
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
