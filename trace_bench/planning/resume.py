"""Find what an earlier start of a run left, and decide what the next one does about each job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ImageRecord, JobMeta, Lock, Results
from trace_bench.artifacts.versions import is_newer, read_versioned
from trace_bench.errors import HarnessError
from trace_bench.planning.planned_job import Decision
from trace_bench.records.reading import read_row
from trace_bench.records.rows import is_final, is_whole
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, OWNER, RUN, owner

Mode = Literal["auto", "failed", "none"]


@dataclass(frozen=True)
class Verdict:
    """The decision about one job, and why. `row` is the result that is reused, for ``reuse``."""

    decision: Decision
    reason: str
    row: Results | None = None


NEW = Verdict("run", "it has no result yet")
"""A job without a result, in a run that is new or was only planned."""


@dataclass
class EarlierRun:
    """A run that was started before: its results, and sandboxes that a dead controller left.

    Attributes:
        adopted: by job id, the sandboxes in which jobs go on; filled by `decide`.
        leftovers: sandboxes that are to be removed; filled by `decide`.
        budget_left: part of the run's budget is left, so that jobs which it cut off can go on.
        takes_over: sandboxes that run can be adopted; on some backends only those that have ended can.
    """

    layout: RunLayout
    mode: Mode
    sandboxes: Mapping[str, list[Sandbox]] = field(default_factory=dict)
    adopted: dict[str, Sandbox] = field(default_factory=dict)
    leftovers: list[Sandbox] = field(default_factory=list)
    budget_left: bool = True
    takes_over: bool = True

    def decide(self, job_id: str, fingerprint: str) -> Verdict:
        """Decide about a job whose result would have `fingerprint`. To be called once for each job."""
        row, damage = self._row(job_id)
        if self.mode != "none" and row is not None and self._counts(row) and row.fingerprint == fingerprint:
            self._leave(job_id)
            if row.cut_by_run_budget:
                return Verdict("reuse", "cut off by the run's budget, which is still used up", row)
            return Verdict("reuse", "ok, and nothing that determines it has changed", row)
        if self.mode != "none" and (verdict := self._adoptable(job_id, fingerprint)) is not None:
            return verdict
        self._leave(job_id)
        if damage:
            return Verdict("run", damage)
        if row is None:
            if self.layout.job(job_id).meta.is_file():
                return Verdict("run", "it was cut off")
            if self.mode == "failed":
                return Verdict("skip", "it has not run yet, and resume is failed")
            return NEW
        if self.mode == "none":
            return Verdict("run", "resume is none")
        if row.stop_reason == "interrupted":
            return Verdict("run", "it was cut off")
        if row.cut_by_run_budget and row.fingerprint == fingerprint:
            return Verdict("run", "it was cut off by the run's budget")
        if row.status == "failed":
            return Verdict("run", f"it failed: {row.failure_boundary}: {row.failure_kind}")
        return Verdict("run", "its result is of another task, image, code, budget or limit")

    def _counts(self, row: Results) -> bool:
        return row.status == "ok" and (is_final(row) if self.budget_left else is_whole(row))

    def _row(self, job_id: str) -> tuple[Results | None, str]:
        try:
            return read_row(self.layout.job(job_id).results), ""
        except FileNotFoundError:
            return None, ""
        except (HarnessError, OSError):
            return None, "its results.json is damaged"

    def _adoptable(self, job_id: str, fingerprint: str) -> Verdict | None:
        """Adopt the job's sandbox, if there is one that has started, with the same fingerprint."""
        chosen: Sandbox | None = None
        reason = ""
        meta = self._meta(job_id)
        # A host that was unreachable may still have a sandbox of the job from before it moved to another host.
        last = (meta.host or "") if meta is not None else ""
        for sandbox in sorted(self.sandboxes.get(job_id, ()), key=lambda sandbox: sandbox.host != last):
            state = sandbox.status()
            usable = ("running", "exited") if self.takes_over else ("exited",)
            if chosen is None and state in usable and self._is_of(job_id, meta, fingerprint):
                chosen = sandbox
                reason = "its sandbox is running" if state == "running" else "its sandbox has ended, uncollected"
            else:
                self.leftovers.append(sandbox)
        if chosen is None:
            return None
        self.adopted[job_id] = chosen
        return Verdict("adopt", reason)

    def _meta(self, job_id: str) -> JobMeta | None:
        try:
            return read_model(JobMeta, self.layout.job(job_id).meta.read_bytes())
        except (OSError, JsonError):
            return None

    def _is_of(self, job_id: str, meta: JobMeta | None, fingerprint: str) -> bool:
        # A controller may have died between the record and the result.
        return meta is not None and meta.fingerprint == fingerprint and not self.layout.job(job_id).results.exists()

    def unreachable_hosts(self, hosts: Collection[str]) -> list[str]:
        """Hosts, other than `hosts`, where jobs had sandboxes whose end is not recorded. The name of the only host of a
        run is empty."""
        found = set()
        for job in self.layout.job_dirs():
            if self.sandboxes.get(job.job_id) or job.results.exists():
                continue
            meta = self._meta(job.job_id)
            if meta is not None and meta.status == "running":
                found.add(meta.host or "")
        return sorted(found - set(hosts))

    def all_leftovers(self, job_ids: Collection[str]) -> tuple[Sandbox, ...]:
        """Sandboxes that are to be removed, with those of jobs other than `job_ids`."""
        others = [sandbox for job_id, found in self.sandboxes.items() if job_id not in job_ids for sandbox in found]
        return (*self.leftovers, *others)

    def _leave(self, job_id: str) -> None:
        known = [*self.adopted.values(), *self.leftovers]
        self.leftovers += [s for s in self.sandboxes.get(job_id, ()) if s not in known]


def earlier_run(layout: RunLayout, backend: Backend, mode: Mode) -> EarlierRun | None:
    """Read what an earlier start of the run at `layout` left; None if it was never started."""
    if not layout.manifest.is_file():
        return None
    sandboxes: dict[str, list[Sandbox]] = {}
    for sandbox in backend.find({RUN: layout.run_id, OWNER: owner()}):
        sandboxes.setdefault(sandbox.labels.get(JOB, ""), []).append(sandbox)
    return EarlierRun(layout, mode, sandboxes, takes_over="adoption" not in backend.cannot)


@dataclass(frozen=True)
class FoundRun:
    """A run of the given config. `note` says why an unfinished one is not continued."""

    layout: RunLayout | None
    note: str = ""


def find_run_to_continue(
    runs_dir: Path,
    mode: Mode,
    config_hash: Callable[[object], str],
    sources_hash: str,
    images: Mapping[str, ImageRecord],
) -> FoundRun:
    """The newest run below `runs_dir` that `mode` continues: of this config, this code and these images.

    Args:
        config_hash: returns the hash of this config, given the task hashes of a run.

    ``auto`` continues an unfinished one, ``failed`` any that has failed jobs, else a finished one, in which nothing is
    done, ``none`` never one.
    """
    if mode == "none":
        return FoundRun(None)
    note, without_failures = "", None
    for layout, lock in _locks(runs_dir):
        if lock.get("config_hash") != config_hash(lock.get("tasks")) or has_controller(layout) or is_newer(lock):
            continue
        same = lock.get("sources_hash") == sources_hash and have_same_keys(_keys(lock.get("images")), images)
        if mode == "failed" and not _has_failures(layout):
            if without_failures is None and same and is_recorded(layout):
                without_failures = layout
            continue
        if mode == "auto" and lock.get("salt") is not None and is_recorded(layout):
            continue
        if same:
            return FoundRun(layout)
        note = note or (
            f"{layout.root} is an unfinished run of this config, but of other code or images: a new run is started; "
            f"--run-id {layout.run_id} continues it"
        )
    return FoundRun(without_failures, "" if without_failures else note)


def have_same_keys(theirs: Mapping[str, Any], images: Mapping[str, ImageRecord]) -> bool:
    """Whether the image keys `theirs`, by family, are those of `images`. The key of a missing image is empty, and equal
    to any."""
    same = (not image.key or theirs[name] in ("", image.key) for name, image in images.items() if name in theirs)
    return theirs.keys() == images.keys() and all(same)


def is_recorded(layout: RunLayout) -> bool:
    """Whether a controller has finished the run, with a final result of every job, and has written all of its files.

    The index is written last, and has the hash of the lock. (Times of files are no evidence: clocks are set.)
    """
    try:
        lock = layout.lock.read_bytes()
        published = json.loads(lock)["salt"] is not None
        return published and hashlib.sha256(lock).hexdigest().encode() in layout.files_index.read_bytes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _keys(images: Any) -> dict[str, Any]:
    """Keys of the images of an untrusted lock."""
    if not isinstance(images, dict):
        return {}
    return {family: image.get("key") for family, image in images.items() if isinstance(image, dict)}


def _locks(runs_dir: Path) -> Iterable[tuple[RunLayout, Mapping[str, Any]]]:
    """The runs below `runs_dir` with their locks as parsed JSON, the newest first."""
    if not runs_dir.is_dir():
        return
    found = []
    for folder in runs_dir.iterdir():
        layout = RunLayout(folder)
        try:
            found.append((layout.lock.stat().st_mtime_ns, layout))
        except OSError:
            continue
    for _, layout in sorted(found, key=lambda pair: (pair[0], pair[1].run_id), reverse=True):
        try:
            lock = json.loads(layout.lock.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(lock, dict):
            yield layout, lock


def _has_failures(layout: RunLayout) -> bool:
    """Whether a job of the run has failed, or was cut off; the tables may be older than what the jobs' files say."""
    for job in layout.job_dirs():
        try:
            row = json.loads(job.results.read_bytes())
            failed = row["status"] == "failed" or row["stop_reason"] == "interrupted"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            failed = True
        if failed:
            return True
    return False


def read_lock(layout: RunLayout) -> Lock | None:
    """The lock of a run that has been started before.

    Raises:
        NewerRun: it is of a later version. HarnessError: it is damaged.
    """
    try:
        return read_versioned(Lock, layout.lock)
    except FileNotFoundError:
        return None


Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(layout: RunLayout) -> Stamp:
    """A value that changes when a controller writes in the run's folder."""
    found: list[tuple[int, int, int] | None] = []
    for path in (layout.manifest, layout.lock, layout.events, layout.files_index):
        try:
            stat = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(found)


def salt_of(layout: RunLayout) -> str | None:
    """The salt of a run that has been started before; None for a new one."""
    if layout.salt.is_file() and (salt := layout.salt.read_text(encoding="utf-8").strip()):
        return salt  # an empty one was about to be written; the lock may have one that was published before
    lock = read_lock(layout)
    return lock.salt if lock is not None else None
