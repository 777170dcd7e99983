"""The catalogue of a command: the installed suites, and their tasks with their specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.base import Suite
from trace_bench.suites.data_sets import DataSet
from trace_bench.suites.installed import load_suites
from trace_bench.suites.registry import SUITES_WITHOUT_TASKS, TaskEntry, any_task, discover, not_found
from trace_bench.suites.spec import TaskSpec, load_task_spec


class Catalog:
    """Suites and tasks as they are when they are asked for first: folders are walked once, and a spec is read once.

    Args:
        roots: folders with task folders that a user names, beside the tasks that come with suites.
    """

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self.roots = tuple(roots)
        self._walked: dict[frozenset[str], dict[str, TaskEntry]] = {}
        self._specs: dict[Path, TaskSpec | ConfigError] = {}

    @cached_property
    def suites(self) -> Mapping[str, Suite]:
        """The installed suites, by name."""
        return load_suites()

    @cached_property
    def names(self) -> list[str]:
        """All names that may stand before the colon of a task id, sorted."""
        return sorted({*self.suites, *SUITES_WITHOUT_TASKS})

    @cached_property
    def has_roots(self) -> bool:
        """Return True if all of `roots` are folders."""
        return all(root.is_dir() for root in self.roots)

    def entries(self, task_ids: Iterable[str]) -> Mapping[str, TaskEntry]:
        """All tasks, by id, of the suites that `task_ids` name.

        Raises:
            ConfigError: as `discover`.
        """
        wanted = frozenset(task_id.partition(":")[0] for task_id in task_ids) & set(self.names)
        if wanted not in self._walked:
            self._walked[wanted] = {entry.id: entry for entry in discover(sorted(wanted), self.roots)}
        return self._walked[wanted]

    def find(self, task_id: str) -> TaskEntry | None:
        """The task with this full id; None if there is none.

        Raises:
            ConfigError: as `discover`.
        """
        suite = task_id.partition(":")[0]
        entries = next((tasks for suites, tasks in self._walked.items() if suite in suites), None)
        return (self.entries([task_id]) if entries is None else entries).get(task_id) or any_task(task_id)

    def not_found(self, task_id: str, remedy: str | None = None) -> str:
        """The sentence for a task id that names nothing; `remedy` as of `trace_bench.suites.registry.not_found`."""
        return not_found(task_id, self.names, dict(self.entries([task_id])), self.roots, remedy)

    def spec(self, entry: TaskEntry) -> TaskSpec:
        """The spec of a task.

        Raises:
            ConfigError: as `load_task_spec`.
        """
        if entry.folder not in self._specs:
            try:
                self._specs[entry.folder] = load_task_spec(entry.folder)
            except ConfigError as error:
                self._specs[entry.folder] = error
        spec = self._specs[entry.folder]
        if isinstance(spec, ConfigError):
            raise spec
        return spec

    def data_sets(self, entries: Iterable[TaskEntry]) -> list[DataSet]:
        """The published data sets that tasks read, each once.

        Raises:
            ConfigError: a spec is broken.
        """
        tasks: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for entry in entries:
            spec = self.spec(entry)
            tasks.setdefault((spec.owner or self.suites[entry.suite]).name, []).append((entry.id, spec.raw))
        return [each for suite, own in tasks.items() for each in self.suites[suite].data_sets(own)]
