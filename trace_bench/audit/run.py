"""The run under audit: its records, read once and shared by all checks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import Summary, Yardstick, Yardsticks
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, GitInfo, Lock, Manifest, ManifestEntry, Results
from trace_bench.artifacts.versions import check_version, is_newer
from trace_bench.audit.claims import Findings
from trace_bench.audit.journal import Journal, read_journal
from trace_bench.audit.reading import Folder, Unreadable
from trace_bench.config.models import RunConfig
from trace_bench.errors import TraceBenchError
from trace_bench.images.recipe import worker_sources_hash
from trace_bench.matrix import Job
from trace_bench.records.gaps import Gaps
from trace_bench.resources import package_hash
from trace_bench.suites.spec import Task

M = TypeVar("M", bound=BaseModel)


@dataclass
class AuditedRun:
    """One run under audit. Records that are missing or do not fit their schema are None.

    Attributes:
        entries: the jobs of the manifest, by id.
        rows: the rows of the jobs that were checked so far, by id.
        config: the config snapshot.
        expanded: the jobs that the snapshot expands to, by id; empty if it cannot be expanded here.
        why_not_expanded: the reason for that.
        tasks: the tasks of the config that are installed here.
        planned: job records that follow from the config, by configuration (see `plan`).
    """

    folder: Folder
    layout: RunLayout
    findings: Findings
    running: bool
    manifest: Manifest | None
    lock: Lock | None
    env: EnvInfo | None
    git: GitInfo | None
    journal: Journal
    entries: Mapping[str, ManifestEntry]
    yardsticks: Sequence[Yardstick]
    has_index: bool
    rows: dict[str, Results] = field(default_factory=dict)
    config: RunConfig | None = None
    expanded: Mapping[str, Job] = field(default_factory=dict)
    why_not_expanded: str = ""
    planned: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)

    @cached_property
    def gaps(self) -> Gaps:
        """The yardsticks by problem."""
        return Gaps.of(self.yardsticks)

    @property
    def run_id(self) -> str:
        """The id in the manifest. The folder can have another name."""
        return self.manifest.run_id if self.manifest is not None else self.layout.run_id

    def path(self, path: Path) -> str:
        """A path of `layout`, relative to the run."""
        return self.layout.relative(path)

    def at(self, path: Path) -> Findings:
        """The findings on a file of `layout`."""
        return self.findings.in_file(self.path(path))

    def model(self, model: type[M], path: Path) -> M | None:
        """A file of `layout`; None if it does not exist, or does not fit, which is reported with the schemas."""
        with contextlib.suppress(Unreadable):
            return self.folder.model(model, self.path(path))
        return None

    @cached_property
    def same_worker_code(self) -> bool:
        """Tasks, trainers and defaults here are those that the run used."""
        return self.lock is not None and self.lock.sources_hash == worker_sources_hash()

    @cached_property
    def same_package(self) -> bool:
        """This package wrote the tables, so that they must match to the letter."""
        summary = self.model(Summary, self.layout.summary)
        return summary is None or summary.package_hash == package_hash()

    @cached_property
    def task_hashes(self) -> Mapping[str, str]:
        """Content hashes of the tasks that are installed here and can be read."""
        found = {}
        for name, task in self.tasks.items():
            with contextlib.suppress(OSError, TraceBenchError):
                found[name] = task.content_hash
        return found

    def why_differs(self, task_id: str | None = None) -> str:
        """Why the config can expand to other jobs here than it did for the run; empty if it cannot.

        Args:
            task_id: consider only this task; default: all tasks of the run.
        """
        if self.lock is None:
            return "the run has no lock"
        if not self.same_worker_code:
            return f"the run was made by another version of the code ({self.lock.code_version})"
        for name in self.lock.tasks if task_id is None else (task_id,):
            if name not in self.tasks:
                return f"{name} is not installed here"
            if self.task_hashes.get(name) != self.lock.tasks.get(name):
                return f"{name} has other content here"
        return ""

    @property
    def why_unfinished(self) -> str:
        """Why the last files of the run do not exist yet; empty for a finished run."""
        if self.running:
            return "the run is still running"
        # A run that was planned and not started has no index.
        if not self.journal.starts and self.has_index:
            return ""
        return self.journal.why_unfinished


def open_run(folder: Folder, layout: RunLayout, findings: Findings) -> AuditedRun:
    """Read the records of the run in `folder`, and check their schemas.

    Raises:
        NewerRun: a later version of this program wrote the run.
    """
    running = has_controller(layout)  # before anything is read

    def read(model: type[M], path: Path) -> M | None:
        at = findings.in_file(layout.relative(path))
        try:
            found, problem = folder.model(model, at.file), None
        except Unreadable as error:
            found, problem = None, str(error)
        at.check(found is not None, "files.schemas", "", problem, model.__name__)
        return found

    for path in (layout.manifest, layout.lock):
        with contextlib.suppress(Unreadable, JsonError, RecursionError):
            value = loads(folder.data(layout.relative(path)) or b"")
            if isinstance(value, dict) and is_newer(value):
                check_version(value["schema_version"], path)
    manifest = read(Manifest, layout.manifest)
    entries: dict[str, ManifestEntry] = {}
    for entry in manifest.jobs if manifest is not None else ():
        if entry.job_id in entries:
            at = findings.in_file(layout.relative(layout.manifest))
            at.wrong("tables.manifest", entry.job_id, "listed twice", "listed once")
        entries[entry.job_id] = entry
    measured = folder.size(layout.relative(layout.yardsticks)) is not None
    yardsticks = read(Yardsticks, layout.yardsticks) if measured else None
    return AuditedRun(
        folder=folder,
        layout=layout,
        findings=findings,
        running=running,
        manifest=manifest,
        lock=read(Lock, layout.lock),
        env=read(EnvInfo, layout.env),
        git=read(GitInfo, layout.git),
        journal=read_journal(folder, layout, findings),
        entries=entries,
        yardsticks=yardsticks.yardsticks if yardsticks is not None else (),
        has_index=folder.size(layout.relative(layout.files_index)) is not None,
    )


def seconds_of(time: str | None) -> float | None:
    """A recorded time in seconds; None if there is none, or it is not a time."""
    try:
        return datetime.fromisoformat(time).timestamp() if time else None
    except ValueError:
        return None
