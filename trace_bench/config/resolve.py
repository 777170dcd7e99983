"""Look up the tasks and trainers that a config names, and check the config against them. Nothing is built or run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.arguments import describe, hint
from trace_bench.config.models import RunConfig
from trace_bench.config.selectors import catalog_of
from trace_bench.config.task_choices import fixture_default, resolve_tasks, takes_fixture
from trace_bench.config.variants import resolve_variants
from trace_bench.errors import ConfigError
from trace_bench.suites import data_sources, user_data
from trace_bench.suites.base import Suite
from trace_bench.suites.catalog import Catalog
from trace_bench.suites.data_sets import missing_splits
from trace_bench.suites.spec import Task, TaskSpec
from trace_bench.trainers.base import Trainer
from trace_bench.trainers.registry import load_trainer


@dataclass(frozen=True)
class Resolved:
    """The tasks and trainers that a config names, by id.

    Attributes:
        lost: why the rows of a task cannot be read, by id: its data set was not fetched, or is damaged. Its jobs cannot
            run.
    """

    tasks: dict[str, Task]
    trainers: dict[str, type[Trainer]]
    lost: dict[str, ConfigError] = field(default_factory=dict)


def resolve(config: RunConfig, catalog: Catalog | None = None, *, lost_task: str | None = None) -> Resolved:
    """Load the specs of the config's tasks and the classes of its trainers, and check the config against them.

    Nothing of a task is imported, no image or engine is touched. Arguments are checked here with all other problems;
    their values are of no use before `trace_bench.matrix.expand`, which derives them again.

    Args:
        catalog: the tasks that there are; None is `catalog_of` the config.
        lost_task: the remedy in the error about a task that does not exist. None suggests the nearest id.

    Raises:
        ConfigError: unknown tasks or trainers, broken task specs, arguments that they do not take; one line each.
    """
    catalog = catalog or catalog_of(config)
    problems = [*_missing_roots(config), *_unknown_suites(config, catalog)]
    if problems:
        raise ConfigError("\n".join(problems))
    lost: dict[str, ConfigError] = {}
    tasks = _tasks(config, catalog, lost_task, problems, lost)
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


def _unknown_suites(config: RunConfig, catalog: Catalog) -> list[str]:
    """Problems with limits of suites that do not exist: such a limit would silently have no effect."""
    return [
        f"{config.source.where(('scheduling', 'suites', name))}: there is no suite {name!r}{hint(name, catalog.names)}"
        for name in config.scheduling.suites
        if name not in catalog.names
    ]


def _tasks(
    config: RunConfig, catalog: Catalog, lost_task: str | None, problems: list[str], lost: dict[str, ConfigError]
) -> dict[str, Task]:
    catalog.entries(entry.id for entry in config.tasks)  # one walk for all
    tasks: dict[str, Task] = {}
    unread = config.data_root is not None
    for index, named in enumerate(config.tasks):
        if named.id in tasks:
            continue
        entry = catalog.find(named.id)
        if entry is None:
            where = config.source.where(("tasks", index, "id"))
            problems.append(f"{where}: {catalog.not_found(named.id, lost_task)}")
            continue
        try:
            spec = catalog.spec(entry)
        except ConfigError as error:
            problems += str(error).splitlines()
            continue
        suite = catalog.suites[entry.suite]
        data = _rows(config, named.id, spec, spec.owner or suite, lost)
        if config.data_root is not None and spec.data is not None:
            unread = False
            try:
                data = user_data.find(spec.data, data_sources.located(config.data_root))
            except ConfigError as error:
                problems.append(f"{config.source.where(('data_root',))}: task {named.id}: {error}")
                continue
        tasks[named.id] = Task(named.id, suite, entry.folder, spec, data)
    if unread and len(tasks) == len({task.id for task in config.tasks}):
        problems.append(
            f"{config.source.where(('data_root',))}: no task of this config reads published data; delete it"
        )
    return tasks


def _rows(
    config: RunConfig, task: str, spec: TaskSpec, suite: Suite, lost: dict[str, ConfigError]
) -> tuple[tuple[str, bytes], ...]:
    """The rows of a data set; those that were fetched only if an entry takes them, so that jobs on the fixture do not
    depend on what was fetched. Where they are missing or damaged, the fixture alone, and why under `task` in `lost`."""
    data_sets = suite.data_sets([(task, spec.raw)])
    if not data_sets:
        return ()
    fetched = not all(takes_fixture(config, entry) for entry in config.tasks if entry.id == task)
    try:
        default = fixture_default(spec)
        if fetched and default is not True and any(map(missing_splits, data_sets)):
            other = " (or set eval_kwargs fixture: true for the few rows that come with the program)"
            lost[task] = ConfigError(
                f"{task}: its data set has not been fetched; run: trace-bench data fetch {task}"
                f"{other if default is False else ''}"
            )
        return suite.data_files(spec.raw, fetched=fetched)
    except ConfigError as error:
        lost[task] = ConfigError(f"{task}: its data set is damaged; run: trace-bench data fetch {task} ({error})")
        return suite.data_files(spec.raw, fetched=False)


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
