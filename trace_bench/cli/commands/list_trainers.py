"""``list-trainers``: prints names of trainers; an older form of ``trainers``."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.commands.trainers import MORE, other_names, print_details
from trace_bench.cli.options import Json
from trace_bench.display.console import emit_rows, note
from trace_bench.display.table import Table


def list_trainers(
    names: Annotated[
        list[str] | None, Argument(metavar="TRAINER", help="Show these trainers with their parameters.")
    ] = None,
    every: Annotated[bool, Option("--all", help="Print unavailable ones too, with the reason.")] = False,
    as_json: Json = False,
) -> None:
    """Print the trainers, one a line, or all about some; see trainers.

    Example: trace-bench list-trainers --all
    """
    if names or as_json:
        print_details(names or [], every=every, as_json=as_json)
        return
    from trace_bench.trainers import registry

    rows = [row for row in registry.list_trainers() if every or row[1]]
    cells = [(name, "available" if ok else "unavailable", *([] if ok else [reason])) for name, ok, reason in rows]
    if every:
        known = {name: None for name, ok, _ in rows if ok}
        cells += [(alias, "available", meaning) for alias, meaning in other_names(known)]
    emit_rows(Table.of(("trainer", "state", "reason"), sorted(cells)))
    if every:
        note(MORE)
