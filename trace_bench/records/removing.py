"""Removes whole runs, leftovers of killed programs, and files that are no longer needed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trace_bench.artifacts.folder_lock import IMPORTING, has_controller, held_for_writing, is_in_use, marked_in_use
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import sync_folder
from trace_bench.errors import ConfigError, EnvironmentUnavailable, HarnessError
from trace_bench.records.digest import unfinished
from trace_bench.records.job_states import RunProgress
from trace_bench.records.reading import read_meta
from trace_bench.records.runs import all_runs, describe
from trace_bench.records.tables import write_files_index

_REMOVING = ".removing-"
"""Part of the name of a run that is being removed."""


@dataclass(frozen=True)
class Item:
    """A file or folder that can be removed.

    Attributes:
        size: bytes of its files.
        run: the run that contains it, or that it is; None for a leftover beside runs.
        listed: the run's index can list it.
    """

    path: Path
    size: int
    why: str
    run: RunLayout | None = None
    listed: bool = False

    @property
    def is_run(self) -> bool:
        return self.run is not None and self.path == self.run.root


def remove_run(run: RunLayout) -> int:
    """Remove a whole run; returns the bytes of its files. The run disappears in one step: it is renamed first.

    Raises:
        ConfigError: it is a link, or a controller or command works in it.
        EnvironmentUnavailable: something in it cannot be removed.
    """
    root = run.root
    if root.is_symlink():
        raise ConfigError(f"{root}: it is a link to a run; name the run itself")
    size = size_of(root)
    hidden = root.with_name(f".{root.name}{_REMOVING}{os.getpid()}")
    with held_for_writing(run), marked_in_use(root):
        try:
            root.rename(hidden)
            sync_folder(root.parent)
            shutil.rmtree(hidden)
        except OSError as error:
            rest = "; trace-bench gc removes the rest" if hidden.exists() else ""
            raise EnvironmentUnavailable(f"{root}: {error.strerror or error}{rest}") from None
    return size


def removable(
    runs_dir: Path, *, evidence: bool = False, older_than: float | None = None, keep: int | None = None
) -> Iterator[Item]:
    """Find what can be removed from `runs_dir` and its runs, except runs in which a controller works.

    Args:
        evidence: also files of earlier attempts, except their rows and cassettes.
        older_than: also finished runs that ended more than this number of seconds ago.
        keep: also finished runs, except this number of those that ended last. With `older_than`, a run must meet both
            conditions.

    Raises:
        ConfigError: `runs_dir` is a file.
    """
    runs = [run for run in all_runs(runs_dir) if not (run.root.is_symlink() or run.meta.is_symlink())]
    runs = [run for run in runs if not has_controller(run)]
    old = {run.root for run in _old(runs, older_than, keep)}
    yield from _beside(runs_dir)
    for run in runs:
        if run.root in old:
            yield Item(run.root, size_of(run.root), "an old run", run, listed=True)
        else:
            root = run.root.resolve()
            for item in _inside(run, evidence=evidence):
                if item.path.parent.resolve().is_relative_to(root):  # no link leads there
                    yield item


def remove(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """Remove `items`; returns those that were removed, and messages on the others. The index of a run that lost listed
    files is made again."""
    gone: list[Item] = []
    failed: list[str] = []
    groups: dict[Path, list[Item]] = {}
    for item in items:
        groups.setdefault(item.run.root if item.run is not None else item.path, []).append(item)
    for group in groups.values():
        try:
            _remove_group(group)
        except (ConfigError, EnvironmentUnavailable, HarnessError) as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"{error.filename or group[0].path}: {error.strerror or error}")
        else:
            gone += group
    return gone, failed


def _remove_group(items: Sequence[Item]) -> None:
    """Remove a leftover, a run, or what was found in one run."""
    run, path = items[0].run, items[0].path
    if run is None:
        if not is_in_use(path):
            shutil.rmtree(path)
    elif items[0].is_run:
        remove_run(run)
    else:
        with held_for_writing(run):
            for item in items:
                if item.path.is_dir() and not item.path.is_symlink():
                    shutil.rmtree(item.path)
                else:
                    item.path.unlink(missing_ok=True)
            if any(item.listed for item in items) and run.files_index.exists():
                write_files_index(run)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder. Links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(Path(folder, name).lstat().st_size for folder, _, names in os.walk(path) for name in names)


def _beside(runs_dir: Path) -> Iterator[Item]:
    """Leftovers of killed ``import`` and ``rm`` commands."""
    if not runs_dir.is_dir():
        return
    for path in sorted(runs_dir.iterdir()):
        leftover = path.name.startswith(IMPORTING) or (path.name.startswith(".") and _REMOVING in path.name)
        if leftover and path.is_dir() and not path.is_symlink() and not is_in_use(path):
            why = "an incomplete import" if path.name.startswith(IMPORTING) else "the rest of a removed run"
            yield Item(path, size_of(path), why)


def _inside(run: RunLayout, *, evidence: bool) -> Iterator[Item]:
    for path in sorted(unfinished(run.root)):
        yield Item(path, size_of(path), "left by a program that was killed", run)
    finished = describe(run).state == "finished"
    for job in run.job_dirs():
        if finished and job.checkpoint.is_file():
            yield Item(job.checkpoint, size_of(job.checkpoint), "the checkpoint of a finished run", run, listed=True)
        if not evidence:
            continue
        try:
            meta = read_meta(job)
        except HarnessError:
            continue
        if meta is None or meta.status not in ("ok", "failed", "skipped"):
            continue
        for attempt in meta.attempts[:-1]:
            folder = job.attempt(attempt.number)
            kept = {job.results.name, job.cassette.name}
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.name not in kept:
                    yield Item(path, size_of(path), "evidence of an earlier attempt", run, listed=True)


def _old(runs: Sequence[RunLayout], older_than: float | None, keep: int | None) -> Iterator[RunLayout]:
    """Finished runs that meet the conditions of `removable`; none without a condition."""
    if older_than is None and keep is None:
        return
    ended: list[tuple[float, RunLayout]] = []
    for run in runs:
        with contextlib.suppress(HarnessError, ValueError):
            if describe(run).state == "finished" and (text := RunProgress.of(run).ended_at):
                ended.append((datetime.fromisoformat(text).timestamp(), run))
    now = datetime.now(UTC).timestamp()
    for place, (when, run) in enumerate(sorted(ended, key=lambda pair: pair[0], reverse=True)):
        if (keep is None or place >= keep) and (older_than is None or now - when > older_than):
            yield run
