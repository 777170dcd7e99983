"""``clean``: sandboxes that a dead controller left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.sandboxes import ControllerAlive, held, own_sandboxes
from trace_bench.errors import ConfigError, EnvironmentUnavailable, TraceBenchError
from trace_bench.results.runs import LATEST, AmbiguousRun, exact_run, find_run, run_id_of
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import JOB, RUN


def clean_command(run: str | None, runs_dir: Path, backend_name: str, *, expired: bool, as_json: bool) -> None:
    """Remove them and print what was removed. One whose controller is alive is left alone.

    Args:
        run: only the sandboxes of this run, whose folder may be gone.
        expired: only those that have ended; those that run on may still be adopted.

    Raises:
        ConfigError: `run` is neither a run in `runs_dir` nor one that a sandbox is of.
        EnvironmentUnavailable: no engine; or, after all others were removed, some could not be.
    """
    backend = get_backend(backend_name)
    found = own_sandboxes(backend)
    if run is not None:
        wanted = _run_id(run, runs_dir, found)
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


def _run_id(text: str, runs_dir: Path, found: Sequence[Sandbox]) -> str:
    """The id of the run that `text` means; `text` itself where only sandboxes know it."""
    exact = exact_run(text, runs_dir)
    if exact is not None:
        return run_id_of(exact)
    if text != LATEST and any(sandbox.labels.get(RUN) == text for sandbox in found):
        return text
    try:
        return run_id_of(find_run(text, runs_dir))
    except AmbiguousRun:
        raise
    except ConfigError as error:
        if text in ("", LATEST):
            raise
        raise ConfigError(f"no sandbox belongs to a run {printable(text)!r}, and {error}") from None
