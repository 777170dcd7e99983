"""Look up the tasks and trainers that a config names, and check the config against them. Nothing is built or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.arguments import describe, hint
from trace_bench.config.models import RunConfig
from trace_bench.config.task_choices import resolve_tasks, takes_fixture
from trace_bench.config.variants import resolve_variants
from trace_bench.errors import ConfigError
from trace_bench.suites import data_sources, user_data
from trace_bench.suites.hf import data as hf_data
from trace_bench.suites.installed import load_suites
from trace_bench.suites.registry import TaskEntry, any_task, discover, not_found, suite_names
from trace_bench.suites.spec import Task, TaskSpec, load_task_spec
from trace_bench.trainers.base import Trainer
from trace_bench.trainers.registry import load_trainer


@dataclass(frozen=True)
class Resolved:
    """The tasks and trainers that a config names, by id.

    Attributes:
        lost: why the rows of a task cannot be read, by id: its data set is damaged. Its jobs cannot run.
    """

    tasks: dict[str, Task]
    trainers: dict[str, type[Trainer]]
    lost: dict[str, ConfigError] = field(default_factory=dict)


def resolve(config: RunConfig, roots: Sequence[Path] = (), *, lost_task: str | None = None) -> Resolved:
    """Load the specs of the config's tasks and the classes of its trainers, and check the config against them.

    Nothing of a task is imported, no image or engine is touched. Arguments are checked here with all other problems;
    their values are of no use before `trace_bench.matrix.expand`, which derives them again.

    Args:
        roots: extra folders with task folders (``--root``), beside the config's ``task_roots``. Relative ones are taken
            from the current folder, like ``runs_dir``.
        lost_task: the remedy in the error about a task that does not exist. None suggests the nearest id.

    Raises:
        ConfigError: unknown tasks or trainers, broken task specs, arguments that they do not take; one line each.
    """
    problems = [*_missing_roots(config), *_unknown_suites(config)]
    if problems:
        raise ConfigError("\n".join(problems))
    lost: dict[str, ConfigError] = {}
    tasks = _tasks(config, [*roots, *(Path(root) for root in config.task_roots)], lost_task, problems, lost)
    trainers = _trainers(config, problems)
    missing_tasks = any(entry.id not in tasks for entry in config.tasks)
    missing_trainers = any(entry.id not in trainers for entry in config.trainers)
    # What is missing is reported above, with a remedy.
    if not missing_tasks:
        resolve_tasks(config, tasks, problems)
    if not missing_trainers:
        resolve_variants(config, trainers, problems)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return Resolved(tasks, trainers, lost)


def _missing_roots(config: RunConfig) -> list[str]:
    problems = []
    for index, root in enumerate(config.task_roots):
        path = Path(root)
        try:
            what = "" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
        except OSError as error:
            what = f"cannot be looked at: {error.strerror or error}"
        if what:
            where = config.source.where(("task_roots", index))
            problems.append(f"{where}: {describe(root)} {what}; name a folder that holds task folders")
    return problems


def _unknown_suites(config: RunConfig) -> list[str]:
    """Problems with limits of suites that do not exist: such a limit would silently have no effect."""
    known = suite_names()
    return [
        f"{config.source.where(('scheduling', 'suites', name))}: there is no suite {name!r}{hint(name, known)}"
        for name in config.scheduling.suites
        if name not in known
    ]


def _tasks(
    config: RunConfig,
    roots: Sequence[Path],
    lost_task: str | None,
    problems: list[str],
    lost: dict[str, ConfigError],
) -> dict[str, Task]:
    suites = load_suites()
    names = suite_names()
    wanted = {entry.id.partition(":")[0] for entry in config.tasks} & set(names)
    entries: dict[str, TaskEntry] = {entry.id: entry for entry in discover(sorted(wanted), roots)}
    tasks: dict[str, Task] = {}
    unread = config.data_root is not None
    for index, named in enumerate(config.tasks):
        if named.id in tasks:
            continue
        where = config.source.where(("tasks", index, "id"))
        entry = entries.get(named.id) or any_task(named.id)
        if entry is None:
            problems.append(f"{where}: {not_found(named.id, names, entries, roots, lost_task)}")
            continue
        try:
            spec = load_task_spec(entry.folder)
        except ConfigError as error:
            problems += str(error).splitlines()
            continue
        data = _rows(config, named.id, spec, lost)
        if config.data_root is not None and spec.data is not None:
            unread = False
            try:
                data = user_data.find(spec.data, data_sources.located(config.data_root))
            except ConfigError as error:
                problems.append(f"{config.source.where(('data_root',))}: task {named.id}: {error}")
                continue
        tasks[named.id] = Task(named.id, suites[entry.suite], entry.folder, spec, data)
    if unread and len(tasks) == len({task.id for task in config.tasks}):
        problems.append(
            f"{config.source.where(('data_root',))}: no task of this config reads published data; delete it"
        )
    return tasks


def _rows(config: RunConfig, task: str, spec: TaskSpec, lost: dict[str, ConfigError]) -> tuple[tuple[str, bytes], ...]:
    """The rows of a data set; those that were fetched only if an entry takes them, so that jobs on the fixture do not
    depend on what was fetched. Where they are damaged, the fixture alone, and why under `task` in `lost`."""
    if spec.qa is None or spec.qa.rows == "folder":
        return ()
    entries = [entry for entry in config.tasks if entry.id == task]
    try:
        return hf_data.packed(spec.qa, rows=not all(takes_fixture(config, entry) for entry in entries))
    except ConfigError as error:
        lost[task] = ConfigError(f"{task}: its data set is damaged; run: trace-bench data fetch {task} ({error})")
        return hf_data.packed(spec.qa, rows=False)


def _trainers(config: RunConfig, problems: list[str]) -> dict[str, type[Trainer]]:
    trainers: dict[str, type[Trainer]] = {}
    for index, named in enumerate(config.trainers):
        if named.id in trainers:
            continue
        try:
            trainers[named.id] = load_trainer(named.id)
        except ConfigError as error:
            problems.append(f"{config.source.where(('trainers', index, 'id'))}: {error}")
    return trainers
