"""``ps``: the sandboxes that exist now."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from trace_bench.analysis.render import dollars
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.follow import Audience
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.places import backend_for
from trace_bench.cli.sandboxes import RunNamed, controller_is_alive, own_sandboxes
from trace_bench.cli.tables import emit_table, takes_escapes
from trace_bench.cli.tally import number
from trace_bench.display.text import escape_json
from trace_bench.errors import SandboxError
from trace_bench.records.job_states import last_step
from trace_bench.records.runs import exact_run
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, RUN, age

INTERVAL = 2.0
"""Seconds between two looks of ``--watch``."""
_HEADER = ("run", "job", "host", "state", "controller", "age", "cost", "name")
_KEYS = ("run_id", "job_id", "host", "state", "controller", "age_seconds", "cost_usd", "name")
"""Of ``--json``, column by column."""


def ps_command(
    run: str | None, runs_dir: Path, backend_name: str, config: Path | None, *, watch: bool, as_json: bool
) -> None:
    """Print the sandboxes of this owner, by run and job.

    Args:
        run: only those of this run, where it has them.
        watch: again and again, until Ctrl-C or until nobody reads.

    Raises:
        EnvironmentUnavailable: the backend does not answer. ConfigError: there is no such backend, run or config.
    """
    named = RunNamed.of(run, runs_dir)
    backend = backend_for(backend_name, config, *(named.place if named is not None else ()))
    if not watch:
        _show(rows_of(backend, named, runs_dir), as_json=as_json)
        return
    gc.enable()
    audience, clear = Audience(), takes_escapes(sys.stdout)
    while not audience.gone():
        rows = rows_of(backend, named, runs_dir)
        if as_json:
            emit(escape_json(json.dumps(rows)))
        else:
            if clear:
                sys.stdout.write("\x1b[H\x1b[2J")
            _show(rows, as_json=False)
        time.sleep(INTERVAL)


def rows_of(backend: Backend, named: RunNamed | None, runs_dir: Path) -> list[dict[str, Any]]:
    """What ``--json`` prints of them."""
    found = own_sandboxes(backend)
    if named is not None:
        wanted = named.choose(found)
        found = [sandbox for sandbox in found if sandbox.labels.get(RUN) == wanted]
    now = time.time()
    rows = [_row(backend, sandbox, runs_dir, now) for sandbox in found]
    return sorted(rows, key=lambda row: tuple(str(row[key] or "") for key in ("run_id", "job_id", "name")))


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_HEADER, [tuple(_cell(key, row[key]) for key in _KEYS) for row in rows], ("age", "cost"))
    else:
        note("there are no sandboxes of yours")


def _cell(key: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if key == "age_seconds":
        return short(value)
    return dollars(value) if key == "cost_usd" else printable(str(value), 160)


def _row(backend: Backend, sandbox: Sandbox, runs_dir: Path, now: float) -> dict[str, Any]:
    try:
        controller = "alive" if controller_is_alive(backend, sandbox) else "dead"
    except SandboxError as error:
        note(f"{printable(sandbox.name, 160)}: {error}")
        controller = None
    seconds = age(sandbox.labels, now)
    return {
        "run_id": sandbox.labels.get(RUN),
        "job_id": sandbox.labels.get(JOB),
        "host": sandbox.host or None,
        "state": sandbox.status(),
        "controller": controller,
        "age_seconds": None if seconds is None else round(seconds),
        "cost_usd": _cost(sandbox, runs_dir),
        "name": sandbox.name,
    }


def _cost(sandbox: Sandbox, runs_dir: Path) -> float | None:
    """US dollars that its models cost until its last evaluated candidate; None where the run is not in `runs_dir`, or
    nothing was evaluated. One small read, however long the run is."""
    run_id, job_id = sandbox.labels.get(RUN), sandbox.labels.get(JOB)
    layout = exact_run(run_id, runs_dir) if run_id else None
    if layout is None or not job_id or "/" in job_id:
        return None
    step = last_step(layout.job(job_id))
    cost = number(step.get("cost_usd")) if step is not None else None
    return None if cost is None else max(0.0, float(cost))


def short(seconds: float) -> str:
    """``12s``, ``3m``, ``5h``, ``2d``: the largest unit that says something."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
