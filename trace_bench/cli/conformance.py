"""``doctor --conformance``: run the checks for backends on one of them, a line each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ExitCode

_MARKS = {"passed": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


def conformance_command(
    *, backend: str, config: Path | None, image: str | None, only: str | None, as_json: bool
) -> int:
    """Run all checks, or those with `only` in their name; 0 if none has failed, else 3.

    Raises:
        ConfigError: no check has such a name. EnvironmentUnavailable: the backend does not work here, or there is no
            image to try it with.
    """
    from trace_bench.cli.places import backend_for
    from trace_bench.sandbox.conformance import CHECKS, Lab, examine

    checks = [check for check in CHECKS if only is None or only in check.name]
    if not checks:
        raise ConfigError(f"no check has {only!r} in its name; leave --only out to see them all.")
    examined = backend_for(backend, config)
    lab = Lab(examined, image or _image(examined.name))
    counts: Counter[str] = Counter()
    outcomes = []
    for outcome in examine(lab, checks):
        counts[outcome.state] += 1
        if as_json:
            outcomes.append({"check": outcome.check, "state": outcome.state, "detail": outcome.detail})
        else:
            detail = f": {printable(outcome.detail, 400)}" if outcome.detail else ""
            emit(f"{_MARKS[outcome.state]} {outcome.check}{detail}")
    if as_json:
        emit_json(outcomes)
    else:
        emit(f"{examined.name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return int(ExitCode.ENVIRONMENT if counts["failed"] else ExitCode.OK)


def _image(backend: str) -> str:
    """What to try `backend` with where nobody says."""
    if backend == "local":
        return "none"
    from trace_bench.images.pins import list_images

    for row in list_images():
        if row.family == "core" and row.pin is not None:
            if backend == "modal" and row.pin.repo_digest is not None:
                return row.pin.repo_digest
            if backend != "modal" and row.present:
                return row.pin.ref
    raise EnvironmentUnavailable(
        "there is no image to try the backend with; run trace-bench images build core"
        + (", and images push core" if backend == "modal" else "")
        + ", or name one that has a python3 with --image."
    )
