"""``ls``: the runs of a folder, one line each."""

from __future__ import annotations

from pathlib import Path

from trace_bench.analysis.render import dollars
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import emit_table, screen
from trace_bench.planning.ownership import has_controller
from trace_bench.records.integrity import PAGE
from trace_bench.records.runs import RunLine, all_runs, describe

_COUNTS = ("failed", "infra", "skipped", "interrupted", "flagged", "unprotected")
"""``infra``: of the failed jobs, those that failed at provider, sandbox or harness."""
_HEADER = ("id", "name", "state", "jobs", "ok", *_COUNTS, "started", "cost", "replay of")
_NUMERIC = ("jobs", "ok", *_COUNTS, "cost")
_ELASTIC = {"name": 8, "replay of": 10}
_SPARE = ("cost", "ok", "skipped", "name", "interrupted", "infra", "unprotected")
_DULL = frozenset({"0", "0.0000"})


def ls_command(runs_dir: Path, *, as_json: bool) -> None:
    """Print the runs in `runs_dir`, newest first; what is damaged in one is said on stderr.

    Raises:
        ConfigError: there is no such folder.
    """
    lines = [describe(run, has_controller) for run in all_runs(runs_dir)]
    if as_json:
        emit_json([_as_json(line) for line in lines])
    elif lines:
        rows = [_cells(line) for line in lines]
        if screen() is not None:
            rows = _shortened(rows)
        emit_table(_HEADER, rows, _NUMERIC, elastic=_ELASTIC, spare=_SPARE)
        if any(line.flagged for line in lines):
            emit(f"flagged: jobs to look at before their scores are quoted; show RUN marks them, and see {PAGE}")
    else:
        note(f"there are no runs in {printable(str(runs_dir))}; trace-bench run makes one")
    for line in lines:
        if line.damage:
            note(f"{'newer' if line.state == 'newer' else 'damaged'}: {printable(line.damage, 400)}")


def _cells(line: RunLine) -> tuple[str, ...]:
    return (
        printable(line.layout.run_id, 128),  # the folder's name, by which a run is found
        printable(line.name, 60) or "-",
        line.state,
        f"{line.done}/{line.jobs}",
        str(line.ok),
        str(line.failed),
        str(line.infrastructure),
        str(line.skipped),
        str(line.interrupted),
        str(line.flagged),
        str(line.unprotected),
        printable((line.started_at or "-")[:19], 19),
        dollars(line.cost_usd),
        printable(line.replay_of, 128) or "-",
    )


def _shortened(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """For a terminal: counts and costs that are nought in every run are empty, and a time is without its seconds, and
    without its year if all have the same."""
    columns = dict(zip(_HEADER, zip(*rows, strict=True), strict=True))
    for name in (*_COUNTS, "cost"):
        if _DULL.issuperset(columns[name]):
            columns[name] = ("",) * len(rows)
    times = columns["started"]
    begin = 5 if len({time[:5] for time in times if time != "-"}) == 1 else 0
    columns["started"] = tuple(time if time == "-" else time[begin:16].replace("T", " ") for time in times)
    return list(zip(*columns.values(), strict=True))


def _as_json(line: RunLine) -> dict[str, object]:
    return {
        "run_id": line.layout.run_id,
        "name": line.name or None,
        "state": line.state,
        "folder": str(line.layout.root),
        "jobs": line.jobs,
        "done": line.done,
        "ok": line.ok,
        "failed": line.failed,
        "skipped": line.skipped,
        "interrupted": line.interrupted,
        "infrastructure_failures": line.infrastructure,
        "flagged": line.flagged,
        "unprotected": line.unprotected,
        "started_at": line.started_at,
        "cost_usd": line.cost_usd,
        "replay_of": line.replay_of or None,
        "damage": line.damage,
    }
