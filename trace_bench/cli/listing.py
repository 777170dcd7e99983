"""``tasks`` and ``trainers``, their older forms ``list-tasks`` and ``list-trainers``, and ``schema``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench.arguments import hint
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.suites.registry import TaskEntry


def tasks_command(
    patterns: Sequence[str], *, tags: Sequence[str], roots: Sequence[Path], bench: str | None, as_json: bool
) -> None:
    """Tasks with title, tags and the first sentence of their statement; with tabs between them in a pipe.

    Args:
        patterns: what a task's id or title holds, or selectors as in a config; one of them must fit.
        tags: one of them must be a task's.

    Raises:
        ConfigError: no task fits.
    """
    listed = [_described(entry) for entry in _found(roots, bench)]
    rows = listed
    for pattern in patterns:
        chosen = {row["id"] for row in listed if _fits(row, pattern)}
        if not chosen:
            raise ConfigError(f"no task has {pattern!r} in its id or title{_near(pattern, listed)}")
    if patterns:
        rows = [row for row in rows if any(_fits(row, pattern) for pattern in patterns)]
    if tags:
        known = {tag for row in listed for tag in row["tags"]}
        for tag in tags:
            if tag not in known:
                raise ConfigError(f"--tag {tag}: no task has this tag{hint(tag, known)}")
        rows = [row for row in rows if set(tags) & set(row["tags"])]
    if as_json:
        emit_json(rows)
        return
    from trace_bench.cli.tables import emit_rows

    cells = [tuple(map(printable, (r["id"], r["title"], ",".join(r["tags"]), r["summary"]))) for r in rows]
    emit_rows(
        ("task", "title", "tags", "what it asks for"), cells, elastic={"what it asks for": 24, "title": 20},
        spare=("what it asks for", "tags"),
    )  # fmt: skip


def _described(entry: TaskEntry) -> dict[str, Any]:
    """What `task.toml` says of a task. Of one that cannot be read, the reason stands in place of its summary."""
    from trace_bench.suites.spec import load_task_spec

    row: dict[str, Any] = {"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)}
    try:
        spec = load_task_spec(entry.folder)
    except ConfigError as error:
        return {**row, "title": "", "tags": [], "summary": f"broken: {error}", "direction": None}
    direction = spec.score.direction
    return {
        **row, "title": spec.title, "tags": list(spec.tags), "summary": _first_sentence(spec.statement),
        "direction": direction,
    }  # fmt: skip


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?:])\s", paragraph, maxsplit=1)[0]


def _fits(row: Mapping[str, Any], pattern: str) -> bool:
    """Whether `pattern` is in the id or the title of a task, or selects it as a config does."""
    from trace_bench.config.selectors import ALL, TAG
    from trace_bench.suites.registry import normalise_id

    suite, _, name = normalise_id(pattern).partition(":")
    if ":" in pattern and (name == ALL or name.startswith(TAG)):
        return bool(suite == row["suite"] and (name == ALL or name.removeprefix(TAG) in row["tags"]))
    if any(c in pattern for c in "*?["):
        return fnmatchcase(row["id"], pattern) or fnmatchcase(row["id"].partition(":")[2], pattern)
    return pattern.lower() in row["id"].lower() or pattern.lower() in row["title"].lower()


def _near(pattern: str, rows: Sequence[Mapping[str, Any]]) -> str:
    words = {word for row in rows for word in re.split(r"[:/\s]+", f"{row['id']} {row['title'].lower()}")}
    near = hint(pattern, words)
    return near if "did you mean" in near else "; 'trace-bench tasks' lists all of them"


def task_ids_command(roots: Sequence[Path], bench: str | None, selectors: Sequence[str] = (), *, as_json: bool) -> None:
    """Ids of tasks, one a line. A known suite without tasks prints nothing, and a note on stderr.

    Args:
        selectors: as in a config (``llm4ad:tag=routing``); without any, all tasks are listed.
    """
    entries = _found(roots, bench)
    if selectors:
        entries = _selected(entries, selectors)
    if as_json:
        emit_json([{"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)} for entry in entries])
    else:
        for entry in entries:
            emit(entry.id)


def _found(roots: Sequence[Path], bench: str | None) -> list[TaskEntry]:
    """The tasks of the suites that `bench` names; a suite without any is noted."""
    from trace_bench.suites.registry import discover

    wanted = suites_of(bench)
    entries = discover(wanted, roots)
    for name in wanted or []:
        if not any(entry.suite == name for entry in entries):
            note(f"note: suite {name} has no tasks here")
    return entries


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
            raise ConfigError(f"{written!r} fits no task; 'trace-bench tasks' lists all of them")
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
    """Trainers with one line each, or all about those that are named.

    Args:
        every: other names of trainers, and those that are not available, too.
    """
    from trace_bench.cli.tables import emit_rows
    from trace_bench.trainers.names import ALIASES
    from trace_bench.trainers.registry import list_trainers, load_trainers

    if names or as_json:
        trainer_ids_command(names, every=every, as_json=as_json)
        return
    classes = load_trainers()
    cells = [(name, trainer.summary) for name, trainer in classes.items()]
    if every:
        cells += [(name, f"unavailable: {reason}") for name, ok, reason in list_trainers() if not ok]
        cells += [(alias, _other_name(alias)) for alias, name in ALIASES.items() if name in classes]
    emit_rows(("trainer", "what it does"), [tuple(map(printable, row)) for row in sorted(cells)],
              elastic={"what it does": 24})  # fmt: skip
    note("trainers NAME shows what a trainer does, after which paper, and all of its parameters")


def trainer_ids_command(names: Sequence[str], *, every: bool, as_json: bool) -> None:
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
            note("trainers NAME shows what a trainer does, after which paper, and all of its parameters")
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
