"""``clean``: sandboxes that a dead controller left behind."""

from __future__ import annotations

from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.labels import JOB, OWNER, RUN, UID_BASE, owner
from trace_bench.sandbox.uids import UidBlocks


def clean_command(run_id: str | None, backend_name: str, *, as_json: bool) -> None:
    """Remove them and print what was removed. One whose controller is alive is left alone."""
    backend = get_backend(backend_name)
    labels = {OWNER: owner(), **({RUN: run_id} if run_id else {})}
    uids = UidBlocks(backend.default_uid_base)
    removed = []
    for sandbox in backend.find(labels):
        base = sandbox.labels.get(UID_BASE)
        try:
            block = uids.adopt(int(base)) if base else None
        except EnvironmentUnavailable:
            note(f"left alone: {sandbox.name} belongs to a controller that is running")
            continue
        sandbox.remove()
        if block is not None:
            block.release()
        removed.append({"name": sandbox.name, "run": sandbox.labels.get(RUN), "job": sandbox.labels.get(JOB)})
    if as_json:
        emit_json(removed)
        return
    for row in removed:
        emit(f"removed {row['name']}")
    if not removed:
        note("nothing to clean")
