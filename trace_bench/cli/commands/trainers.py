"""``trainers``: lists trainers, or shows what is known of some."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from typer import Argument, Option

from trace_bench.cli import complete
from trace_bench.cli.options import Json
from trace_bench.display.console import emit, emit_json, emit_rows, note
from trace_bench.display.table import Table

MORE = "trainers NAME shows what a trainer does, after which paper, and all of its parameters"


def trainers(
    names: Annotated[
        list[str] | None,
        Argument(metavar="TRAINER", help="Show these with all of their parameters.", autocompletion=complete.trainers),
    ] = None,
    every: Annotated[bool, Option("--all", help="List other names and unavailable trainers too.")] = False,
    as_json: Json = False,
) -> None:
    """List trainers with what they do, or show all about some.

    Example: trace-bench trainers PrioritySearch
    """
    if names or as_json:
        print_details(names or [], every=every, as_json=as_json)
        return
    from trace_bench.trainers.registry import list_trainers, load_trainers

    classes = load_trainers()
    cells = [(name, trainer.summary) for name, trainer in classes.items()]
    if every:
        cells += [(name, f"unavailable: {reason}") for name, ok, reason in list_trainers() if not ok]
        cells += other_names(classes)
    emit_rows(Table.of(("trainer", "what it does"), sorted(cells), shrink={"what it does": 24}))
    note(MORE)


def print_details(names: Sequence[str], *, every: bool, as_json: bool) -> None:
    """Print all about the trainers that are named; without names, all about all trainers as JSON.

    Args:
        every: unavailable trainers too.
    """
    from trace_bench.trainers.reference import described
    from trace_bench.trainers.registry import list_trainers, load_trainer, load_trainers

    if not names:
        classes = load_trainers()
        emit_json([
            {"available": available, "reason": reason, **described(classes.get(name), name)}
            for name, available, reason in list_trainers()
            if every or available
        ])  # fmt: skip
        return
    found = [described(load_trainer(name)) for name in names]
    if as_json:
        emit_json([{"available": True, "reason": "", **trainer} for trainer in found])
        return
    for trainer in found:
        _show(trainer)


def other_names(known: Mapping[str, object]) -> list[tuple[str, str]]:
    """Other names of the trainers `known`, each with what it stands for."""
    from trace_bench.trainers.names import ALIASES, PRESETS

    found = []
    for alias, name in ALIASES.items():
        if name in known:
            preset = [f"{key} {value}" for key, value in PRESETS.get(alias, {}).items()]
            found.append((alias, f"is {name}{' with ' + ', '.join(preset) if preset else ''}"))
    return found


def _show(trainer: Mapping[str, Any]) -> None:
    """Print all that there is to know of a trainer."""
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
