"""Task entries that name many tasks, or one by a short name, become entries that name one each.

``llm4ad:all``, ``llm4ad:optimization/*`` (any pattern of `fnmatch`; ``*`` goes across ``/``) and ``llm4ad:tag=routing``
select; ``llm4ad:optimization``, a folder of tasks, is all tasks below it; ``llm4ad:optimization/aircraft_landing`` is
short. Without a suite they are of the suite of bare names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from trace_bench.arguments import hint
from trace_bench.config.frozen import FrozenDict
from trace_bench.config.models import RunConfig, TaskConfig
from trace_bench.config.source import Rows, Source, Table
from trace_bench.errors import ConfigError
from trace_bench.suites.catalog import Catalog
from trace_bench.suites.registry import TaskEntry, other_names

ALL = "all"
TAG = "tag="


def is_selector(task_id: str) -> bool:
    """Whether `task_id` (``suite:name``) stands for the tasks that fit it."""
    name = task_id.partition(":")[2]
    return name == ALL or name.startswith(TAG) or any(c in name for c in "*?[")


def selector_of(task_id: str, known: Collection[str]) -> str:
    """The selector that `task_id` is or stands for: a folder of tasks stands for all below it. Empty for one task.

    Args:
        known: ids of tasks, and short ones.
    """
    if is_selector(task_id):
        return task_id
    folder = f"{task_id}/"
    is_folder = task_id not in known and any(one.startswith(folder) for one in known)
    return f"{folder}*" if is_folder else ""


def catalog_of(config: RunConfig, roots: Sequence[Path] = ()) -> Catalog:
    """The tasks that `config` can name, those below `roots` too."""
    return Catalog([*roots, *map(Path, config.task_roots)])


def select(config: RunConfig, catalog: Catalog | None = None) -> RunConfig:
    """`config` with a task entry for each task that a selector fits, in the order of their ids, and full ids for short
    ones. A selector leaves out what another entry names, and what an earlier selector had. ``eval_kwargs`` of a
    selector count for the tasks that take them.

    Raises:
        ConfigError: a selector fits no task, or none of its tasks takes an argument; one line each.
    """
    catalog = catalog or catalog_of(config)
    ids = [entry.id for entry in config.tasks]
    if not {name.partition(":")[0] for name in ids} <= set(catalog.names) or not catalog.has_roots:
        return config  # `resolve` says so
    entries = catalog.entries(ids)
    short = other_names(entries.values())
    known = {*entries, *short}
    selectors = [selector_of(task.id, known) for task in config.tasks]
    if not any(selectors) and not any(task.id not in entries and task.id in short for task in config.tasks):
        return config

    named = {short.get(task.id, task.id) if task.id not in entries else task.id for task in config.tasks}
    problems: list[str] = []
    taken: set[str] = set()
    chosen: list[tuple[int, TaskConfig]] = []
    for index, task in enumerate(config.tasks):
        selector = selectors[index]
        if not selector:
            full = task.id if task.id in entries else short.get(task.id, task.id)
            chosen.append((index, task.model_copy(update={"id": full})))
            continue
        where = config.source.where(("tasks", index, "id"))
        fitting = _fitting(selector, catalog, entries, problems, where)
        new = [entry for entry in fitting if entry.id not in named and entry.id not in taken]
        taken |= {entry.id for entry in fitting}
        chosen += _with_arguments(config, index, catalog, new, problems)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    if not chosen:
        raise ConfigError(f"{config.source.where(('tasks',))} selects no task")
    source = _moved(config.source, [(index, task.id) for index, task in chosen])
    return config.changed({"tasks": tuple(task for _, task in chosen)}, source=source)


def fitting(selector: str, catalog: Catalog, entries: Iterable[TaskEntry]) -> list[TaskEntry]:
    """The `entries` of `catalog` that `selector` fits, in their order. Reads their specs if it asks for a tag.

    Raises:
        ConfigError: a spec that must be read for its tags is broken.
    """
    suite, _, name = selector.partition(":")
    own = [entry for entry in entries if entry.suite == suite]
    if name == ALL:
        return own
    if name.startswith(TAG):
        tag = name.removeprefix(TAG)
        return [entry for entry in own if tag in catalog.spec(entry).tags]
    return [entry for entry in own if fnmatchcase(entry.id.partition(":")[2], name)]


def _fitting(
    selector: str, catalog: Catalog, entries: Mapping[str, TaskEntry], problems: list[str], where: str
) -> list[TaskEntry]:
    found = fitting(selector, catalog, entries.values())
    if not found:
        suite, _, name = selector.partition(":")
        near = ""
        if name.startswith(TAG):
            own = fitting(f"{suite}:{ALL}", catalog, entries.values())
            tags = {tag for entry in own for tag in catalog.spec(entry).tags}
            near = hint(name.removeprefix(TAG), sorted(tags))
        near = f"{near} " if near.endswith("?") else f"{near}; "
        problems.append(
            f"{where}: {selector!r} fits no task{near}'trace-bench tasks --bench {suite}' lists what there is"
        )
    return found


def _with_arguments(
    config: RunConfig, index: int, catalog: Catalog, entries: list[TaskEntry], problems: list[str]
) -> list[tuple[int, TaskConfig]]:
    """An entry for each task, with those of the selector's arguments that it takes."""
    task = config.tasks[index]
    if not task.eval_kwargs:
        return [(index, task.model_copy(update={"id": entry.id})) for entry in entries]
    found = []
    used: set[str] = set()
    known: set[str] = set()
    for entry in entries:
        spec = catalog.spec(entry)
        known |= {argument.name for argument in spec.arguments()}
        own = {key: value for key, value in task.eval_kwargs.items() if spec.takes(key)}
        used |= own.keys()
        found.append((index, task.model_copy(update={"id": entry.id, "eval_kwargs": FrozenDict(own)})))
    for key in task.eval_kwargs:
        if entries and key not in used:
            where = config.source.where(("tasks", index, "eval_kwargs", key))
            problems.append(f"{where}: no task that {task.id!r} fits takes {key!r}{hint(key, sorted(known))}")
    return found


def _moved(source: Source, chosen: Sequence[tuple[int, str]]) -> Source:
    """`source` where entry n of ``tasks`` is found at the place of the entry that it comes from."""
    rows = source.root.get("tasks")
    if not isinstance(rows, Rows):
        return source
    root = Table(source.root, source.root.line)
    root.places = source.root.places
    moved = Rows((rows[index] for index, _ in chosen), rows.line, single=rows.single)
    moved.lines = [rows.line_of(index) for index, _ in chosen]
    root["tasks"] = moved
    return Source(source.file, root, source.warnings)
