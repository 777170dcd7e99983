"""``clean``: sandboxes that a dead controller left behind."""

from __future__ import annotations

from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.places import backend_for
from trace_bench.cli.sandboxes import ControllerAlive, RunNamed, held, own_sandboxes
from trace_bench.errors import EnvironmentUnavailable, TraceBenchError
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, RUN


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
    if as_json:
        emit_json(removed)
    elif not removed and not failed:
        note("nothing to clean")
    if failed:
        raise EnvironmentUnavailable(
            f"{len(failed)} of {len(found)} sandboxes could not be removed; try again ({'; '.join(failed)})"
        )


def _removed(backend: Backend, sandbox: Sandbox, *, expired: bool) -> bool:
    """Remove `sandbox`, unless it runs and only `expired` ones are to go."""
    with held(backend, sandbox):
        if expired and sandbox.status() in ("running", "created"):
            note(f"left alone: {printable(sandbox.name, 160)} has not ended; run may adopt it")
            return False
        sandbox.remove()
        return True
