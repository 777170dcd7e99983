"""What the checks of one audit share: the run's own records, read once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import Summary
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, GitInfo, Lock, Manifest, ManifestEntry, Results
from trace_bench.artifacts.versions import check_version, is_newer
from trace_bench.audit.claims import Book
from trace_bench.audit.journal import Journal, read_journal
from trace_bench.audit.reading import Folder, Unreadable
from trace_bench.config.models import RunConfig
from trace_bench.errors import TraceBenchError
from trace_bench.images.recipe import worker_sources_hash
from trace_bench.matrix import Job
from trace_bench.resources import package_hash
from trace_bench.suites.spec import Task

M = TypeVar("M", bound=BaseModel)


@dataclass
class Audited:
    """One run under audit.

    Attributes:
        run_id: as the manifest has it; the folder may be called otherwise.
        rows: by job id, the rows of the jobs that have been looked at.
        config: the snapshot; None if it cannot be taken for one.
        expanded: by job id, the jobs that the snapshot expands to; empty if it cannot be expanded here.
        not_expanded: why not.
        tasks: those of the config that are installed here.
        planned: by way of solving a task, what a job's record has from the config.
    """

    folder: Folder
    layout: RunLayout
    book: Book
    running: bool
    manifest: Manifest | None
    lock: Lock | None
    env: EnvInfo | None
    git: GitInfo | None
    journal: Journal
    entries: Mapping[str, ManifestEntry]
    rows: dict[str, Results] = field(default_factory=dict)
    config: RunConfig | None = None
    expanded: Mapping[str, Job] = field(default_factory=dict)
    not_expanded: str = ""
    has_index: bool = False
    planned: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)

    @cached_property
    def is_of_this_code(self) -> bool:
        """What tasks, trainers and defaults are here is what they were there."""
        return self.lock is not None and self.lock.sources_hash == worker_sources_hash()

    @cached_property
    def has_tables_of_this_code(self) -> bool:
        """The whole package that wrote the tables is this one, so that they are due to the letter."""
        try:
            summary = self.folder.model(Summary, self.path(self.layout.summary))
        except Unreadable:
            return True
        return summary is None or summary.package_hash == package_hash()

    def why_differs(self, task_id: str | None = None) -> str:
        """Why what the config expands to here may differ from what it did there; empty if it may not.

        Args:
            task_id: only this task matters; default: all of the run.
        """
        if self.lock is None:
            return "the run has no lock"
        if not self.is_of_this_code:
            return f"the run was made by another version of the code ({self.lock.code_version})"
        for name in self.lock.tasks if task_id is None else (task_id,):
            if name not in self.tasks:
                return f"{name} is not installed here"
            if self.hashes.get(name) != self.lock.tasks.get(name):
                return f"{name} has other content here"
        return ""

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """Content hashes of the tasks that are installed here; those that cannot be read are left out."""
        found = {}
        for name, task in self.tasks.items():
            with contextlib.suppress(OSError, TraceBenchError):
                found[name] = task.content_hash
        return found

    @property
    def run_id(self) -> str:
        return self.manifest.run_id if self.manifest is not None else self.layout.run_id

    @property
    def why_unfinished(self) -> str:
        """Why its last files are not there yet; empty for a run that was recorded to an end."""
        if self.running:
            return "the run is going on"
        # A run that was planned and not started has no index.
        if not self.journal.starts and self.has_index:
            return ""
        return self.journal.why_unfinished

    def path(self, path: object) -> str:
        """A place of `layout`, relative to the run."""
        return self.layout.relative(path)  # type: ignore[arg-type]


def _refuse_newer(folder: Folder, layout: RunLayout, relative: str) -> None:
    """
    Raises:
        NewerRun: the run is of a later version; nothing that it says is understood here.
    """
    try:
        value = loads(folder.data(relative) or b"")
    except (Unreadable, JsonError, RecursionError):
        return
    if isinstance(value, dict) and is_newer(value):
        check_version(value["schema_version"], layout.root / relative)


def look_at(folder: Folder, layout: RunLayout, book: Book) -> Audited:
    """The records of the run in `folder`; what does not fit its schema is noted, and not there.

    Raises:
        NewerRun: the run is of a later version of the files' form.
    """
    running = has_controller(layout)

    def read(model: type[M], relative: str) -> M | None:
        book.checked("files.schemas")
        try:
            found = folder.model(model, relative)
        except Unreadable as error:
            book.wrong("files.schemas", relative, was=str(error), due=model.__name__)
            return None
        if found is None:
            book.wrong("files.schemas", relative, was=None, due=model.__name__)
        return found

    for place in (layout.manifest, layout.lock):
        _refuse_newer(folder, layout, layout.relative(place))
    manifest = read(Manifest, layout.relative(layout.manifest))
    entries: dict[str, ManifestEntry] = {}
    for entry in manifest.jobs if manifest is not None else ():
        if entry.job_id in entries:
            book.wrong("tables.manifest", layout.relative(layout.manifest), entry.job_id, "listed twice", "listed once")
        entries[entry.job_id] = entry
    return Audited(
        folder=folder,
        layout=layout,
        book=book,
        running=running,
        manifest=manifest,
        lock=read(Lock, layout.relative(layout.lock)),
        env=read(EnvInfo, layout.relative(layout.env)),
        git=read(GitInfo, layout.relative(layout.git)),
        journal=read_journal(folder, layout, book),
        entries=entries,
        has_index=folder.size(layout.relative(layout.files_index)) is not None,
    )
