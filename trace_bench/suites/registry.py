"""Finds the tasks of the installed suites, without importing or parsing any task.

A task is a folder with a ``task.toml``; the folder's path below its suite's root is the task's name. Listing
walks folders and nothing else, so that it stays fast with hundreds of tasks and cannot be stopped by a broken
one. Below a root that the user names, a suite may find tasks in other formats (`Suite.tasks_in`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import data_dir
from trace_bench.suites.base import Suite
from trace_bench.suites.installed import load_suites
from trace_bench.suites.task_index import FILE as INDEX
from trace_bench.suites.task_index import named_folder, nothing_below, read_index

DEFAULT_SUITE = "llm4ad"
"""The suite of a task id without a colon."""
FOREIGN_SUITE = "internal"
"""The suite of a task under an extra root that names none."""
SUITES_WITHOUT_TASKS = ("rollouts",)
"""Names that are taken; these families bring no tasks with this release."""

_SPEC = "task.toml"
_ID_PREFIXES = {"example": "trace_examples"}
_ID_ALIASES = {"veribench:smoke_placeholder": "veribench:gcd"}
"""What published configs call a task that is there whatever data is."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBERED = re.compile(r"0*(?P<number>\d+)_(?P<name>.+)")
_SUITE_LINE = re.compile(r"""^\s*suite\s*=\s*(["'])(?P<name>[^"']*)\1\s*(#.*)?$""")


@dataclass(frozen=True, order=True)
class TaskEntry:
    """The place of a task. Nothing of it has been read.

    Attributes:
        by_path: the id that the path of its folder gives, where an ``index.json`` names the task otherwise.
    """

    id: str
    suite: str
    folder: Path
    by_path: str = ""


def suite_names() -> list[str]:
    """All names that may stand before the colon of a task id, sorted."""
    return sorted({*load_suites(), *SUITES_WITHOUT_TASKS})


def normalise_id(task_id: str) -> str:
    """`task_id` as ``suite:name``: a bare name is one of llm4ad, and ``example:x`` is ``trace_examples:x``.

    >>> normalise_id("circle_packing"), normalise_id("example:greeting_stub")
    ('llm4ad:circle_packing', 'trace_examples:greeting_stub')
    """
    suite, colon, name = task_id.strip().partition(":")
    if not colon:
        suite, name = DEFAULT_SUITE, suite
    found = f"{_ID_PREFIXES.get(suite, suite)}:{name}"
    return _ID_ALIASES.get(found, found)


def discover(suites: Sequence[str] | None = None, roots: Sequence[Path] = ()) -> list[TaskEntry]:
    """The tasks of `suites` (of all that are listed, if None), sorted by id.

    Args:
        roots: extra folders with task folders. One that is an LLM4AD root (its path ends in
            ``LLM4AD/benchmark_tasks``, or it has an ``index.json`` that names tasks) takes the place of the LLM4AD
            tasks that come with the package. In any other, a ``task.toml`` may say ``suite = "…"``; without it the
            task belongs to ``internal``. A task in a format of a suite belongs to that suite. A root that is a checkout
            of a suite takes the place of the tasks that come with the package.

    Raises:
        ConfigError: an unknown suite, a root that is no folder, or has no task and one of `suites` could have tasks
            there, a broken ``index.json``, or one id in two folders.
    """
    installed = load_suites()
    known = {*installed, *SUITES_WITHOUT_TASKS}
    wanted = set(known if suites is None else suites)
    for name in sorted(wanted - known):
        raise ConfigError(f"there is no suite {name!r}{hint(name, known)}")

    found: dict[str, TaskEntry] = {}
    replaced: set[str] = set()
    for root in roots:
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise ConfigError(f"the task root {root} {what}; name a folder that holds task folders")
        index = read_index(root)
        ends = {suite.name for suite in installed.values() if root.resolve().parts[-2:] == suite.checkout}
        replaced |= ends | ({DEFAULT_SUITE} if index else set())
        owner = DEFAULT_SUITE if index or DEFAULT_SUITE in ends else ""
        added = [_named(entry, index) for entry in _extra_entries(root, installed, owner)]
        if not added and (
            suites is None or any(suite.in_roots and suite.name in wanted for suite in installed.values())
        ):
            raise ConfigError(nothing_below(root, index))
        _add(found, added)
    for suite in installed.values():
        shown = suite.listed or suites is not None
        if suite.name in wanted and suite.name not in replaced and shown:
            tasks = _tasks(_suite_root(suite))
            _add(found, (TaskEntry(f"{suite.name}:{name}", suite.name, path) for name, path, _ in tasks))
    return sorted(entry for entry in found.values() if entry.suite in wanted)


def resolve(task_id: str, roots: Sequence[Path] = ()) -> TaskEntry:
    """The task that `task_id` names.

    Raises:
        ConfigError: no such suite or task; the nearest ids are named.
    """
    return resolve_all([task_id], roots)[0]


def resolve_all(task_ids: Sequence[str], roots: Sequence[Path] = ()) -> list[TaskEntry]:
    """`resolve` for many ids with one walk; every id that is not found is one line of the error."""
    problems: list[str] = []
    wanted = [normalise_id(task_id) for task_id in task_ids]
    known = suite_names()
    entries = {e.id: e for e in discover(sorted({w.partition(":")[0] for w in wanted} & set(known)), roots)}
    short = other_names(entries.values())
    full = [w if w in entries else short.get(w, w) for w in wanted]
    entries |= {w: entry for w in full if w not in entries and (entry := any_task(w)) is not None}
    for written, task_id in zip(task_ids, full, strict=True):
        if task_id not in entries:
            problems.append(not_found(written, known, entries, roots))
    if problems:
        raise ConfigError("\n".join(problems))
    return [entries[f] for f in full]


def any_task(task_id: str) -> TaskEntry | None:
    """`task_id` in the folder that its suite has for all tasks without one."""
    suite = load_suites().get(task_id.partition(":")[0])
    name = task_id.partition(":")[2]
    if suite is None or not suite.any_task or _PLAIN.fullmatch(name) is None:
        return None
    return TaskEntry(task_id, suite.name, _suite_root(suite) / suite.any_task)


def other_names(entries: Iterable[TaskEntry]) -> dict[str, str]:
    """``{other name: id}``: the short names of tasks, and the paths of folders that an ``index.json`` names."""
    listed = list(entries)
    return short_names(entry.id for entry in listed) | {entry.by_path: entry.id for entry in listed if entry.by_path}


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """``{short name: id}``: a task's last word, with or without its group and the ending that names a collection, where
    only one task has it. Of a numbered word, its number and what follows it are short names too.

    >>> short_names(["llm4ad:optimization/co_bench/bp_1d_co_bench"])["llm4ad:optimization/bp_1d"]
    'llm4ad:optimization/co_bench/bp_1d_co_bench'
    >>> short_names(["veribench:007_is_even"])["veribench:7"]
    'veribench:007_is_even'
    """
    found: dict[str, list[str]] = {}
    listed = list(ids)
    for task_id in listed:
        suite, _, name = task_id.partition(":")
        *groups, last = name.split("/")
        plain = last.removesuffix(f"_{groups[-1]}") if groups else last
        numbered = _NUMBERED.fullmatch(last)
        for word in dict.fromkeys((last, plain, *(numbered.groups() if numbered else ()))):
            for depth in range(len(groups) + 1):
                found.setdefault(f"{suite}:{'/'.join([*groups[:depth], word])}", []).append(task_id)
    known = set(listed)
    return {short: full[0] for short, full in found.items() if len(full) == 1 and short not in known}


def not_found(
    written: str,
    suites: Sequence[str],
    ids: Sequence[str] | dict[str, TaskEntry],
    roots: Sequence[Path],
    remedy: str | None = None,
) -> str:
    """The sentence for a task id that names nothing.

    Args:
        remedy: what to do about it, where the id is known to be right. None names the nearest id.
    """
    task_id = normalise_id(written)
    suite = task_id.partition(":")[0]
    if suite not in suites:
        return f"there is no suite {suite!r} (task id {written!r}){hint(suite, suites)}"
    if remedy is not None:
        return f"there is no task {written!r} here; {remedy}"
    for root in roots:
        if folder := named_folder(root, task_id.partition(":")[2]):
            return f"there is no task {written!r}; {root / INDEX} names the folder {folder!r} for it, which is no task"
    near = hint(task_id, [i for i in ids if i.startswith(f"{suite}:")])
    if "did you mean" not in near:
        everywhere = [e.id for e in discover(None, roots)]
        name = task_id.partition(":")[2]
        same = [i for i in everywhere if i.partition(":")[2] == name] or [
            i for i in everywhere if i.partition(":")[2].rpartition("/")[2] == name
        ]
        near = f"; did you mean {same[0]!r}?" if same else hint(task_id, everywhere)
        if "did you mean" not in near:
            near = f"; 'trace-bench tasks --bench {suite}' lists what there is, --root FOLDER adds tasks of yours"
    return f"there is no task {written!r}{near}"


def _suite_root(suite: Suite) -> Path:
    try:
        return data_dir("benchmarks") / suite.root
    except FileNotFoundError as error:
        raise EnvironmentUnavailable(str(error)) from error


def _named(entry: TaskEntry, index: Mapping[str, str]) -> TaskEntry:
    """`entry` under the name that `index` has for its folder; one that it does not have keeps its own."""
    key = index.get(entry.id.partition(":")[2])
    named = f"{entry.suite}:{key}"
    return entry if key is None or named == entry.id else TaskEntry(named, entry.suite, entry.folder, entry.id)


def _add(found: dict[str, TaskEntry], entries: Iterable[TaskEntry]) -> None:
    for entry in entries:
        other = found.setdefault(entry.id, entry)
        if other is not entry and other.folder.resolve() != entry.folder.resolve():
            raise ConfigError(
                f"task {entry.id!r} lies in two folders, {other.folder} and {entry.folder}; rename one of them"
            )


def _extra_entries(root: Path, suites: Mapping[str, Suite], owner: str) -> Iterator[TaskEntry]:
    """The tasks below a root that the user names; all are of the suite `owner`, if there is one."""
    known = {*suites, *SUITES_WITHOUT_TASKS}
    for name, path, suite in _tasks(root, suites.values()):
        of = owner or (suite.name if suite is not None else _named_suite(path / _SPEC) or FOREIGN_SUITE)
        if of not in known:
            raise ConfigError(f"{path / _SPEC}: there is no suite {of!r}{hint(of, known)}")
        yield TaskEntry(f"{of}:{name}", of, path)


def _tasks(root: Path, suites: Collection[Suite] = ()) -> Iterator[tuple[str, Path, Suite | None]]:
    """The name and the path of each task below `root`, and the suite in whose own format it is; None for a task folder
    of ours. Links are not followed; a task folder holds no other tasks.

    Args:
        suites: look for tasks in their formats, too.
    """
    pending = [(str(root), "")]
    while pending:
        folder, name = pending.pop()
        try:
            with os.scandir(folder) as entries:
                children = list(entries)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be listed: {error.strerror or error}") from error
        path, full, content = Path(folder), name or root.resolve().name, {child.name for child in children}
        found: list[tuple[str, Path, Suite | None]] = []
        for suite in suites:
            found += ((task, place, suite) for task, place in suite.tasks_in(path, full, content))
        is_task = any(place == path for _, place, _ in found)
        if not is_task and _SPEC in content and (path / _SPEC).is_file():
            found, is_task = [(full, path, None)], True
        yield from found
        for child in () if is_task else children:
            hidden = child.name.startswith(".") or child.name == "__pycache__"
            if not hidden and child.is_dir(follow_symlinks=False):
                pending.append((child.path, f"{name}/{child.name}" if name else child.name))


def _named_suite(spec: Path) -> str | None:
    """The value of ``suite`` before the first table, read line by line: listing parses no TOML."""
    try:
        with spec.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.lstrip().startswith("["):
                    return None
                if match := _SUITE_LINE.match(line):
                    return match["name"]
    except OSError as error:
        raise ConfigError(f"{spec}: cannot be read: {error.strerror or error}") from error
    return None
