"""``doctor``: what this machine has and lacks, one line each."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from trace_bench import __version__
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json
from trace_bench.errors import ExitCode, TraceBenchError

_FIRST_FACTS = ("backend", "engine", "operating_system", "architecture", "default_runtime")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `needed` ones decide the exit code; `short` is `detail` for a terminal, where that is too
    long for one."""

    name: str
    ok: bool
    needed: bool
    detail: str
    short: str = ""


def doctor_command(*, backend: str = "auto", as_json: bool) -> int:
    """Look at everything, with `backend` in place of the Docker engine; 0 if nothing that is needed is missing, else 3.

    Raises:
        ConfigError: no backend has that name.
    """
    checks = list(_CHECKS)
    if backend not in ("auto", "docker"):
        checks[1] = (backend, True, _of_backend(backend))
    findings = [_look(name, needed, check) for name, needed, check in checks]
    if as_json:
        emit_json([{k: v for k, v in asdict(f).items() if k != "short"} for f in findings])
    else:
        for f in findings:
            mark = "ok     " if f.ok else ("MISSING" if f.needed else "note   ")
            emit(f"{mark} {f.name:<10} {(f.short if sys.stdout.isatty() else '') or f.detail}")
    return int(ExitCode.OK if all(f.ok or not f.needed for f in findings) else ExitCode.ENVIRONMENT)


def _look(name: str, needed: bool, check: Callable[[], str | tuple[str, str]]) -> Finding:
    try:
        said = check()
    except TraceBenchError as error:
        return Finding(name, False, needed, str(error))
    return Finding(name, True, needed, *((said,) if isinstance(said, str) else said))


def _python() -> str:
    return f"trace-bench {__version__} on Python {platform.python_version()}"


def _engine() -> tuple[str, str]:
    """All that is known of the engine, and the few facts that a person asks for first."""
    from trace_bench.sandbox.backends import get_backend

    facts = get_backend("docker").describe()
    known = {key: value for key, value in facts.items() if isinstance(value, str | int | float) and value != ""}
    known["runtimes"] = "; ".join(str(runtime) for runtime in facts.get("runtime_details") or ())
    first = [printable(str(known[key]).partition(" (")[0], 30) for key in _FIRST_FACTS if key in known]
    if "cpus" in known:
        first.append(f"{known['cpus']} cpus")
    if "memory_bytes" in known:
        first.append(f"{int(known['memory_bytes']) / 2**30:.0f} GiB")
    return ", ".join(f"{key} {value}" for key, value in known.items()), ", ".join([" ".join(first[:2]), *first[2:]])


def _of_backend(name: str) -> Callable[[], tuple[str, str]]:
    """What is known of a backend that answers, and what it goes without."""
    from trace_bench.sandbox.backends import backend_names, get_backend

    if name not in backend_names():
        get_backend(name)  # which says what there is

    def check() -> tuple[str, str]:
        backend = get_backend(name)
        facts = {key: value for key, value in backend.describe().items() if isinstance(value, str | int | float)}
        known = ", ".join(f"{key} {value}" for key, value in facts.items() if value != "")
        lost = sorted(backend.cannot)
        reasons = "; ".join(f"{control} ({backend.cannot[control]})" for control in lost)
        return f"{known}; goes without: {reasons}" if lost else known, f"{known}; goes without {', '.join(lost)}"

    return check


def _images() -> str:
    from trace_bench.images.pins import ImageStatus, list_images

    def state(row: ImageStatus) -> str:
        if row.pin is None:
            return "will be built"
        if row.drift:
            return "drifted"
        return {True: "ready", False: "missing", None: "unknown"}[row.present]

    return ", ".join(f"{row.family} {state(row)}" for row in list_images())


def _tasks() -> str:
    from trace_bench.suites.registry import discover

    return f"{len(discover())} tasks"


def _trainers() -> str:
    from trace_bench.trainers.registry import list_trainers

    rows = list_trainers()
    lost = [f"{name} ({reason})" for name, available, reason in rows if not available]
    return f"{len(rows) - len(lost)} trainers" + (f"; unavailable: {', '.join(lost)}" if lost else "")


def _models() -> str:
    """What mode real needs, by the names of variables."""
    from importlib import metadata

    from trace_bench.controller.environment import DOTENV, Variables, read_dotenv
    from trace_bench.controller.services import SERVICES
    from trace_bench.errors import EnvironmentUnavailable
    from trace_bench.gateway.real import GET_LITELLM

    try:
        version = metadata.version("litellm")
    except metadata.PackageNotFoundError:
        raise EnvironmentUnavailable(f"no litellm, which mode real needs: {GET_LITELLM}") from None
    filed = read_dotenv(Path(DOTENV))
    variables = Variables({**filed, **os.environ}, {name: DOTENV for name in filed if not os.environ.get(name)})
    names = dict.fromkeys(name for service in SERVICES.values() for name in service.keys)
    keys = ", ".join(variables.origin(name) for name in names if variables.get(name))
    return f"litellm {version}, {'keys: ' + keys if keys else 'no key found'}"


def _disk() -> str:
    from trace_bench.errors import EnvironmentUnavailable

    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < 2:
        raise EnvironmentUnavailable(f"{free:.1f} GiB are free here; runs and images want 2 GiB at least")
    return f"{free:.0f} GiB free"


_CHECKS: tuple[tuple[str, bool, Callable[[], str | tuple[str, str]]], ...] = (
    ("python", True, _python),
    ("engine", True, _engine),
    ("images", False, _images),
    ("tasks", True, _tasks),
    ("trainers", True, _trainers),
    ("models", False, _models),
    ("disk", True, _disk),
)
