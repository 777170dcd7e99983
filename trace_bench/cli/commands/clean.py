"""``clean``: removes sandboxes that a controller left behind, and what services of the host made for its runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from trace_bench.cli.options import RUNS, BackendLookedAt, HostsOf, Json, RunsDir
from trace_bench.display.console import emit, emit_json, note

if TYPE_CHECKING:
    from trace_bench.sandbox.base import Sandbox

Removed = dict[str, str | None]
"""One thing that was removed, as ``--json`` prints it."""


def clean(
    run_id: Annotated[str | None, Option("--run", metavar="RUN", help="Remove only the sandboxes of this run.")] = None,
    expired: Annotated[
        bool, Option("--expired", help="Remove only those that have ended; run may still adopt the others.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    backend: BackendLookedAt = "auto",
    config: HostsOf = None,
    as_json: Json = False,
) -> None:
    """Remove sandboxes that controllers of yours left behind. Live ones are not touched.

    Example: trace-bench clean --run 20260101-120000-0123abcd
    """
    from trace_bench.cli.backends import backend_for
    from trace_bench.cli.sandboxes import RunNamed, remove_each, sandboxes_of
    from trace_bench.sandbox.labels import JOB, RUN

    named = RunNamed.of(run_id, runs_dir)
    made_them = backend_for(backend, config, *(named.id_and_folder if named is not None else ()))
    removed: list[Removed] = []

    def remove(sandbox: Sandbox) -> None:
        if expired and sandbox.status() in ("running", "created"):
            note(f"left alone: {sandbox.name} has not ended; run may adopt it")
            return
        sandbox.remove()
        removed.append({"run_id": sandbox.labels.get(RUN), "job_id": sandbox.labels.get(JOB), "name": sandbox.name})
        if not as_json:
            emit(f"removed {sandbox.name}")

    failure = remove_each(made_them, sandboxes_of(made_them, named), remove)
    if not expired:
        clean_services(named.run_id if named is not None else None, runs_dir, removed, as_json=as_json)
    if as_json:
        emit_json(removed)
    elif not removed and failure is None:
        note("nothing to clean")
    if failure is not None:
        raise failure


def clean_services(run: str | None, runs_dir: Path, removed: list[Removed], *, as_json: bool) -> None:
    """Remove what services of the host made for runs without a controller, and add it to `removed`."""
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.artifacts.layout import RunLayout
    from trace_bench.execution.service_host import LABELS, load_services
    from trace_bench.sandbox.labels import owner
    from trace_bench.suites.installed import load_suites

    for service in load_services(name for suite in load_suites().values() for name in suite.services).values():
        for found in sorted(service.left(f"{LABELS['owner']}={owner()}", LABELS["run"])):
            if run is not None and found != run:
                continue
            shown, layout = found, RunLayout(runs_dir / found)
            if layout.root.is_dir() and has_controller(layout):
                note(f"left alone: what {service.name} does for {shown} belongs to a controller that is running")
            elif run is None and not layout.root.is_dir():
                note(f"left alone: what {service.name} made for {shown}, a run that is not here; name it with --run")
            elif service.sweep(f"{LABELS['run']}={found}"):
                note(f"left over: {service.name} could not remove all that it made for {shown}; try again")
            else:
                removed.append({"run_id": found, "job_id": None, "name": service.name})
                if not as_json:
                    emit(f"removed what {service.name} made for {shown}")
