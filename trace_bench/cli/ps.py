"""``ps``: the sandboxes that exist now."""

from __future__ import annotations

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit_json, note
from trace_bench.cli.sandboxes import controller_is_alive, own_sandboxes
from trace_bench.cli.tables import emit_table
from trace_bench.errors import SandboxError
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, RUN

_HEADER = ("run", "job", "state", "controller", "name")
_KEYS = ("run_id", "job_id", "state", "controller", "name")
"""Of ``--json``, column by column."""


def ps_command(backend_name: str, *, as_json: bool) -> None:
    """Print the sandboxes of this owner, by run and job.

    Raises:
        EnvironmentUnavailable: the backend does not answer. ConfigError: there is no such backend.
    """
    backend = get_backend(backend_name)
    rows = sorted(
        (_row(backend, sandbox) for sandbox in own_sandboxes(backend)),
        key=lambda row: tuple(row[key] or "" for key in ("run_id", "job_id", "name")),
    )
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_HEADER, [tuple(printable(row[key] or "-", 160) for key in _KEYS) for row in rows])
    else:
        note("there are no sandboxes of yours")


def _row(backend: Backend, sandbox: Sandbox) -> dict[str, str | None]:
    try:
        controller = "alive" if controller_is_alive(backend, sandbox) else "dead"
    except SandboxError as error:
        note(f"{printable(sandbox.name, 160)}: {error}")
        controller = None
    return {
        "run_id": sandbox.labels.get(RUN),
        "job_id": sandbox.labels.get(JOB),
        "state": sandbox.status(),
        "controller": controller,
        "name": sandbox.name,
    }
