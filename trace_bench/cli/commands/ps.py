"""``ps``: the sandboxes that exist now."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.cli import collect_garbage
from trace_bench.cli.options import RUNS, BackendLookedAt, HostsOf, Json, RunsDir
from trace_bench.display.console import emit, emit_json, emit_table, note, takes_escapes
from trace_bench.display.table import Table, dollars
from trace_bench.display.text import escape_json
from trace_bench.errors import SandboxError

if TYPE_CHECKING:
    from trace_bench.cli.sandboxes import RunNamed
    from trace_bench.sandbox.base import Backend, Sandbox

INTERVAL = 2.0
"""Seconds between two looks of ``--watch``."""
_HEADER = ("run", "job", "host", "state", "controller", "age", "cost", "name")
_KEYS = ("run_id", "job_id", "host", "state", "controller", "age_seconds", "cost_usd", "name")
"""Keys of ``--json``, in the order of the columns."""


def ps(
    run: Annotated[
        str | None, Argument(metavar="RUN", help="Only sandboxes of this run, on the hosts it was started on.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    backend: BackendLookedAt = "auto",
    config: HostsOf = None,
    watch: Annotated[bool, Option("--watch", "-w", help="Print again every two seconds, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Print the sandboxes of yours that exist now.

    Example: trace-bench ps
    """
    from trace_bench.cli.backends import backend_for
    from trace_bench.cli.follow import Audience
    from trace_bench.cli.sandboxes import RunNamed

    named = RunNamed.of(run, runs_dir)
    found = backend_for(backend, config, *(named.id_and_folder if named is not None else ()))
    if not watch:
        _show(rows_of(found, named, runs_dir), as_json=as_json)
        return
    collect_garbage()
    audience, clear = Audience(), takes_escapes(sys.stdout)
    while not audience.gone():
        rows = rows_of(found, named, runs_dir)
        if as_json:
            emit(escape_json(json.dumps(rows)))
        else:
            if clear:
                sys.stdout.write("\x1b[H\x1b[2J")
            _show(rows, as_json=False)
        time.sleep(INTERVAL)


def rows_of(backend: Backend, named: RunNamed | None, runs_dir: Path) -> list[dict[str, Any]]:
    """The sandboxes of this owner, or of the run that is `named`, as ``--json`` prints them."""
    from trace_bench.cli.sandboxes import sandboxes_of

    now = time.time()
    rows = [_row(backend, sandbox, runs_dir, now) for sandbox in sandboxes_of(backend, named)]
    return sorted(rows, key=lambda row: tuple(str(row[key] or "") for key in ("run_id", "job_id", "name")))


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(Table.of(_HEADER, [[_cell(key, row[key]) for key in _KEYS] for row in rows], ("age", "cost")))
    else:
        note("there are no sandboxes of yours")


def _cell(key: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if key == "age_seconds":
        return short(value)
    return dollars(value) if key == "cost_usd" else str(value)


def _row(backend: Backend, sandbox: Sandbox, runs_dir: Path, now: float) -> dict[str, Any]:
    from trace_bench.cli.sandboxes import controller_is_alive
    from trace_bench.sandbox.labels import JOB, RUN, age

    try:
        controller = "alive" if controller_is_alive(backend, sandbox) else "dead"
    except SandboxError as error:
        note(f"{sandbox.name}: {error}")
        controller = None
    seconds = age(sandbox.labels, now)
    run_id, job_id = sandbox.labels.get(RUN), sandbox.labels.get(JOB)
    return {
        "run_id": run_id,
        "job_id": job_id,
        "host": sandbox.host or None,
        "state": sandbox.status(),
        "controller": controller,
        "age_seconds": None if seconds is None else round(seconds),
        "cost_usd": _cost(run_id, job_id, runs_dir),
        "name": sandbox.name,
    }


def _cost(run_id: str | None, job_id: str | None, runs_dir: Path) -> float | None:
    """US dollars that the models of a job cost until its last evaluated candidate; None where the run is not in
    `runs_dir`, or nothing was evaluated. One small read, however long the run is."""
    from trace_bench.artifacts.jsonio import finite_number
    from trace_bench.records.job_states import last_step
    from trace_bench.records.runs import exact_run

    layout = exact_run(run_id, runs_dir) if run_id else None
    if layout is None or not job_id or "/" in job_id:
        return None
    step = last_step(layout.job(job_id))
    cost = finite_number(step.get("cost_usd")) if step is not None else None
    return None if cost is None else max(0.0, float(cost))


def short(seconds: float) -> str:
    """``12s``, ``3m``, ``5h``, ``2d``: the largest unit of which there are two or more."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
