"""``ls``: the runs of a folder, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunsDir
from trace_bench.display import console
from trace_bench.display.console import emit, emit_json, emit_table, note
from trace_bench.display.table import Column, Table, dollars
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.records.runs import RunLine

_COUNTS = ("failed", "infra", "skipped", "interrupted", "flagged", "unprotected")
"""``infra`` is the number of failed jobs that failed at provider, sandbox or harness."""
NEWEST = 20
"""Number of runs that are printed by default."""


def ls(
    runs_dir: RunsDir = RUNS,
    newest: Annotated[
        int | None,
        Option("--newest", "-n", metavar="N", min=1, show_default=str(NEWEST), help="Print at most N runs."),
    ] = None,
    every: Annotated[bool, Option("--all", help="Print all runs; so does --json without -n.")] = False,
    as_json: Json = False,
) -> None:
    """Print the runs, one a line: running ones, then the newest.

    Example: trace-bench ls --runs-dir runs
    """
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.records.integrity import PAGE
    from trace_bench.records.runs import all_runs, describe

    if every and newest is not None:
        raise ConfigError(f"--all and --newest {newest} are given; give one of them")
    runs = all_runs(runs_dir)
    most = newest or (len(runs) if every or as_json else NEWEST)
    runs, more = runs[:most], len(runs) - most
    lines = [describe(run, running=has_controller(run)) for run in runs]  # reads several files of each run
    if as_json:
        emit_json([_as_json(line) for line in lines])
    elif lines:
        emit_table(_for_terminal(_table(lines)) if console.screen() is not None else _table(lines))
        if any(line.flagged for line in lines):
            emit(f"flagged: jobs to look at before their scores are quoted; show RUN marks them, and see {PAGE}")
    else:
        note(f"there are no runs in {runs_dir}; trace-bench run makes one")
    if more > 0 and not as_json:
        note(f"and {more} more runs; --all shows them, -n N the newest N")
    for line in lines:
        if line.damage:
            note(f"{'newer' if line.state == 'newer' else 'damaged'}: {line.damage}")


def _table(lines: Sequence[RunLine]) -> Table:
    rows = [
        (
            line.layout.run_id,  # the folder's name, by which a run is found
            line.name or "-",
            line.state,
            f"{line.done}/{line.jobs}",
            line.ok,
            line.failed,
            line.infrastructure,
            line.skipped,
            line.interrupted,
            line.flagged,
            line.unprotected,
            (line.started_at or "-")[:19],
            line.cost_usd,
            line.replay_of or "-",
        )
        for line in lines
    ]
    columns = (
        Column("id", limit=128),
        Column("name", limit=60),
        Column("state"),
        *(Column(name, right=True) for name in ("jobs", "ok", *_COUNTS)),
        Column("started"),
        Column("cost", right=True, format=dollars),
        Column("replay of", limit=128),
    )
    drop = ("cost", "ok", "skipped", "name", "interrupted", "infra", "unprotected")
    return Table.of(columns, rows, shrink={"name": 8, "replay of": 10}, drop=drop)


def _for_terminal(table: Table) -> Table:
    """`table` without the counts and costs that are 0 in every run. Times lose their seconds, and their year if all
    runs have the same."""
    times = table.column("started")
    begin = 5 if len({time[:5] for time in times if time != "-"}) == 1 else 0
    table = table.with_column("started", [time[begin:16].replace("T", " ") if time != "-" else time for time in times])
    return table.without(*(name for name in (*_COUNTS, "cost") if not any(table.column(name))))


def _as_json(line: RunLine) -> dict[str, object]:
    return {
        "run_id": line.layout.run_id,
        "name": line.name or None,
        "state": line.state,
        "folder": str(line.layout.root),
        **{name: getattr(line, name) for name in ("jobs", "done", "ok", "failed", "skipped", "interrupted")},
        "infrastructure_failures": line.infrastructure,
        **{name: getattr(line, name) for name in ("flagged", "unprotected", "started_at", "cost_usd")},
        "replay_of": line.replay_of or None,
        "damage": line.damage,
    }
