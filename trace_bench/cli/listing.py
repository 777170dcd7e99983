"""``list-tasks``, ``list-trainers``, ``schema``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import ConfigError


def tasks_command(roots: Sequence[Path], bench: str | None, *, as_json: bool) -> None:
    """Ids of tasks, one a line. A known suite without tasks prints nothing, and a note on stderr."""
    from trace_bench.suites.registry import discover

    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"--root {root}: there is no such folder")
    wanted = suites_of(bench)
    entries = discover(wanted, roots)
    if as_json:
        emit_json([{"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)} for entry in entries])
    else:
        for entry in entries:
            emit(entry.id)
    for name in wanted or []:
        if not any(entry.suite == name for entry in entries):
            note(f"note: suite {name} has no tasks here")


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


def trainers_command(*, every: bool, as_json: bool) -> None:
    """``id<TAB>available|unavailable``, with the reason where there is one; in columns on a terminal."""
    from trace_bench.cli.tables import emit_rows  # not for `list-tasks`, which is to be quick
    from trace_bench.trainers.registry import list_trainers, load_trainers

    rows = [row for row in list_trainers() if every or row[1]]
    if not as_json:
        cells = [(name, "available" if ok else "unavailable", *([] if ok else [reason])) for name, ok, reason in rows]
        emit_rows(("trainer", "state", "reason"), cells)
        return
    classes = load_trainers()
    listed = []
    for name, available, reason in rows:
        trainer = classes.get(name)
        listed.append(
            {
                "id": name,
                "available": available,
                "reason": reason,
                "summary": trainer.summary if trainer else None,
                "source": trainer.source if trainer else None,
                "params": [
                    {
                        "name": p.name,
                        "type": p.type.__name__,
                        "default": p.default,
                        "aliases": list(p.aliases),
                        "doc": p.doc,
                    }
                    for p in (trainer.params if trainer else ())
                ],
            }
        )
    emit_json(listed)


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
