"""``list-tasks``: prints ids of tasks; an older form of ``tasks``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from trace_bench.cli.listing import tasks_of
from trace_bench.cli.options import Json, Roots, Suites
from trace_bench.display.console import emit, emit_json
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.suites.registry import TaskEntry


def list_tasks(
    selectors: Annotated[
        list[str] | None,
        Argument(metavar="TASK", help="Only these, as in a config: llm4ad:optimization/*, llm4ad:tag=NAME."),
    ] = None,
    root: Roots = None,
    bench: Suites = None,
    as_json: Json = False,
) -> None:
    """Print the ids of all tasks, one a line; see tasks.

    Example: trace-bench list-tasks --bench llm4ad 'llm4ad:tag=routing'
    """
    entries = tasks_of(bench, root or [])
    if selectors:
        entries = _selected(entries, selectors)
    if as_json:
        emit_json([{"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)} for entry in entries])
    else:
        for entry in entries:
            emit(entry.id)


def _selected(entries: Sequence[TaskEntry], selectors: Sequence[str]) -> list[TaskEntry]:
    """Those of `entries` that one of `selectors` names or fits.

    Raises:
        ConfigError: a selector fits none.
    """
    from trace_bench.config.selectors import fitting, selector_of
    from trace_bench.suites.catalog import Catalog
    from trace_bench.suites.registry import normalise_id, other_names

    catalog = Catalog()
    short = other_names(entries)
    known = {*short, *(entry.id for entry in entries)}
    found: set[str] = set()
    for written in selectors:
        wanted = normalise_id(written)
        selector = selector_of(wanted, known)
        full = {wanted, short.get(wanted, wanted)}
        ids = (
            {entry.id for entry in fitting(selector, catalog, entries)} if selector else full & {e.id for e in entries}
        )
        if not ids:
            raise ConfigError(f"{written!r} fits no task; 'trace-bench tasks' lists all of them")
        found |= ids
    return [entry for entry in entries if entry.id in found]
