"""``list-tasks``, ``list-trainers``, ``schema``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.suites.registry import TaskEntry


def tasks_command(roots: Sequence[Path], bench: str | None, selectors: Sequence[str] = (), *, as_json: bool) -> None:
    """Ids of tasks, one a line. A known suite without tasks prints nothing, and a note on stderr.

    Args:
        selectors: as in a config (``llm4ad:tag=routing``); without any, all tasks are listed.
    """
    from trace_bench.suites.registry import discover

    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"--root {root}: there is no such folder")
    wanted = suites_of(bench)
    entries = discover(wanted, roots)
    if selectors:
        entries = _selected(entries, selectors)
    if as_json:
        emit_json([{"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)} for entry in entries])
    else:
        for entry in entries:
            emit(entry.id)
    for name in wanted or []:
        if not any(entry.suite == name for entry in entries):
            note(f"note: suite {name} has no tasks here")


def _selected(entries: Sequence[TaskEntry], selectors: Sequence[str]) -> list[TaskEntry]:
    """Those of `entries` that one of `selectors` names or fits.

    Raises:
        ConfigError: a selector fits none.
    """
    from trace_bench.config.selectors import fitting, is_selector
    from trace_bench.suites.registry import normalise_id, short_names

    short = short_names(entry.id for entry in entries)
    found: set[str] = set()
    for written in selectors:
        wanted = normalise_id(written)
        full = {wanted, short.get(wanted, wanted)}
        known = {entry.id for entry in (fitting(wanted, entries) if is_selector(wanted) else entries)}
        ids = known if is_selector(wanted) else known & full
        if not ids:
            raise ConfigError(f"{written!r} fits no task; 'trace-bench list-tasks' without it lists all of them")
        found |= ids
    return [entry for entry in entries if entry.id in found]


def suites_of(bench: str | None) -> list[str] | None:
    """The suites that ``--bench`` names, with commas or plus signs between them; None if it was not given.

    Raises:
        ConfigError: there is no such suite.
    """
    from trace_bench.suites.registry import suite_names

    if bench is None:
        return None
    wanted = [name for name in re.split(r"[,+\s]+", bench) if name]
    known = suite_names()
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        said = ", ".join(unknown) or repr(bench)
        raise ConfigError(f"--bench: there is no suite {said}; known are {', '.join(known)}")
    return wanted


def trainers_command(names: Sequence[str], *, every: bool, as_json: bool) -> None:
    """``id<TAB>available|unavailable``, with the reason where there is one; in columns on a terminal.

    Args:
        names: of trainers to be shown with their parameters, source and semantics; none lists all.
    """
    from trace_bench.cli.tables import emit_rows  # not for `list-tasks`, which is to be quick
    from trace_bench.trainers.names import ALIASES
    from trace_bench.trainers.reference import described
    from trace_bench.trainers.registry import list_trainers, load_trainer, load_trainers

    if names:
        found = [described(load_trainer(name)) for name in names]
        if as_json:
            emit_json([{"available": True, "reason": "", **trainer} for trainer in found])
        else:
            for trainer in found:
                _show_trainer(trainer)
        return
    rows = [row for row in list_trainers() if every or row[1]]
    if not as_json:
        cells = [(name, "available" if ok else "unavailable", *([] if ok else [reason])) for name, ok, reason in rows]
        if every:
            known = {name for name, ok, _ in rows if ok}
            cells += [(alias, "available", _other_name(alias)) for alias, name in ALIASES.items() if name in known]
        emit_rows(("trainer", "state", "reason"), sorted(cells))
        if every:
            note("list-trainers NAME shows what a trainer does, after which paper, and all of its parameters")
        return
    classes = load_trainers()
    emit_json(
        [
            {"available": available, "reason": reason, **described(classes.get(name), name)}
            for name, available, reason in rows
        ]
    )


def _other_name(alias: str) -> str:
    from trace_bench.trainers.names import ALIASES, PRESETS

    given = [f"{name} {value}" for name, value in PRESETS.get(alias, {}).items()]
    return f"is {ALIASES[alias]}{' with ' + ', '.join(given) if given else ''}"


def _show_trainer(trainer: Mapping[str, Any]) -> None:
    """All that there is to know of a trainer, for people."""
    emit(f"{trainer['id']}: {trainer['summary']}")
    emit(f"source: {trainer['source']}")
    if trainer["aliases"]:
        emit(f"also called: {', '.join(trainer['aliases'])}")
    emit()
    for line in trainer["semantics"].splitlines():
        emit(line)
    for param in trainer["params"]:
        also = f" (also {', '.join(param['aliases'])})" if param["aliases"] else ""
        choices = f"; one of {', '.join(map(str, param['choices']))}" if param["choices"] else ""
        when = "".join(f"; only with {name} {_values(v)}" for name, v in param["when"].items())
        emit()
        emit(f"  {param['name']}: {param['type']} = {json.dumps(param['default'])}{also}")
        emit(f"      {param['doc']}{choices}{when}")
    emit()


def _values(effective: Any) -> str:
    if isinstance(effective, dict):
        return f"other than {_values(effective['other_than'])}"
    return " or ".join(v if isinstance(v, str) else json.dumps(v) for v in effective)


def schema_command(name: str | None) -> None:
    """A schema of ``schemas/``, or the names of all."""
    from trace_bench.resources import data_dir

    folder = data_dir("schemas")
    names = sorted(path.name.removesuffix(".schema.json") for path in folder.glob("*.schema.json"))
    if name is None:
        for known in names:
            emit(known)
        return
    if name not in names:
        raise ConfigError(f"there is no schema {name!r}; known are {', '.join(names)}")
    emit((folder / f"{name}.schema.json").read_text(encoding="utf-8").rstrip("\n"))
