"""``clean``: sandboxes that a dead controller left behind."""

from __future__ import annotations

from pathlib import Path

from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.places import backend_for
from trace_bench.cli.sandboxes import ControllerAlive, RunNamed, held, own_sandboxes
from trace_bench.errors import EnvironmentUnavailable, TraceBenchError
from trace_bench.execution.service_host import LABELS, load_services
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, RUN, owner
from trace_bench.suites.registry import load_suites


def clean_command(
    run: str | None, runs_dir: Path, backend_name: str, config: Path | None, *, expired: bool, as_json: bool
) -> None:
    """Remove them and print what was removed. One whose controller is alive is left alone.

    Args:
        run: only the sandboxes of this run, whose folder may be gone.
        config: whose places are looked at; None is those of `run`, or the usual ones of the backend.
        expired: only those that have ended; those that run on may still be adopted.

    Raises:
        ConfigError: `run` is neither a run in `runs_dir` nor one that a sandbox is of.
        EnvironmentUnavailable: no engine; or, after all others were removed, some could not be.
    """
    named = RunNamed.of(run, runs_dir)
    backend = backend_for(backend_name, config, *(named.place if named is not None else ()))
    found = own_sandboxes(backend)
    if named is not None:
        wanted = named.choose(found)
        found = [sandbox for sandbox in found if sandbox.labels.get(RUN) == wanted]
    removed: list[dict[str, str | None]] = []
    failed: list[str] = []
    for sandbox in found:
        try:
            if _removed(backend, sandbox, expired=expired):
                row = {"run_id": sandbox.labels.get(RUN), "job_id": sandbox.labels.get(JOB), "name": sandbox.name}
                removed.append(row)
                if not as_json:
                    emit(f"removed {printable(sandbox.name, 160)}")
        except ControllerAlive:
            note(f"left alone: {printable(sandbox.name, 160)} belongs to a controller that is running")
        except (TraceBenchError, OSError) as error:  # one that resists does not keep the others
            failed.append(f"{printable(sandbox.name, 160)}: {printable(str(error), 400)}")
    if not expired:
        _clean_services(named.run_id if named is not None else None, runs_dir, removed, as_json=as_json)
    if as_json:
        emit_json(removed)
    elif not removed and not failed:
        note("nothing to clean")
    if failed:
        raise EnvironmentUnavailable(
            f"{len(failed)} of {len(found)} sandboxes could not be removed; try again ({'; '.join(failed)})"
        )


def _clean_services(run: str | None, runs_dir: Path, removed: list[dict[str, str | None]], *, as_json: bool) -> None:
    """Remove what services of the host made for runs without a controller, and note it in `removed`."""
    for service in load_services(name for suite in load_suites().values() for name in suite.services).values():
        for found in sorted(service.left(f"{LABELS['owner']}={owner()}", LABELS["run"])):
            if run is not None and found != run:
                continue
            shown, layout = printable(found, 160), RunLayout(runs_dir / found)
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


def _removed(backend: Backend, sandbox: Sandbox, *, expired: bool) -> bool:
    """Remove `sandbox`, unless it runs and only `expired` ones are to go."""
    with held(backend, sandbox):
        if expired and sandbox.status() in ("running", "created"):
            note(f"left alone: {printable(sandbox.name, 160)} has not ended; run may adopt it")
            return False
        sandbox.remove()
        return True
