"""``doctor``: what this machine has and lacks, one line each."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from trace_bench import __version__
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json
from trace_bench.config.places import DockerConfig
from trace_bench.errors import ExitCode, TraceBenchError
from trace_bench.planning.backends import BackendChoice
from trace_bench.sandbox.base import CONTROLS, Backend, Host, TriesStarts

Check = tuple[str, bool, Callable[[], str | tuple[str, str]]]
"""What is looked at, whether a run needs it, and what says how it is."""

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


def examine_machine(backend: str, config: Path | None, *, as_json: bool) -> int:
    """Look at everything; 0 if nothing that is needed is missing, else 3.

    Args:
        config: whose hosts, or whose app, are looked at; None is the usual place of `backend`.

    Raises:
        ConfigError: the config is wrong, or no backend has that name.
    """
    findings = [_look(name, needed, check) for name, needed, check in _checks(backend, config)]
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


def _engine(found: list[Backend]) -> tuple[str, str]:
    """All that is known of the engine, and the few facts that a person asks for first; adds it to `found`."""
    from trace_bench.sandbox.backends import get_backend

    backend = get_backend("docker")
    facts = backend.describe()
    found.append(backend)
    known = {key: value for key, value in facts.items() if isinstance(value, str | int | float) and value != ""}
    known["runtimes"] = "; ".join(str(runtime) for runtime in facts.get("runtime_details") or ())
    first = [printable(str(known[key]).partition(" (")[0], 30) for key in _FIRST_FACTS if key in known]
    if "cpus" in known:
        first.append(f"{known['cpus']} cpus")
    if "memory_bytes" in known:
        first.append(f"{int(known['memory_bytes']) / 2**30:.0f} GiB")
    return ", ".join(f"{key} {value}" for key, value in known.items()), ", ".join([" ".join(first[:2]), *first[2:]])


def _backend(places: BackendChoice, found: list[Backend]) -> tuple[str, str]:
    """What a backend says of itself, and of the hosts that it has; on a terminal without the details. Adds it to
    `found`."""
    from trace_bench.planning.backends import connect_backend

    backend = connect_backend(places)
    said = _said(backend)
    found.append(backend)
    return said


def _said(found: Backend) -> tuple[str, str]:
    hosts = "; ".join(map(host_sentence, found.hosts()))
    facts = {k: v for k, v in found.describe().items() if isinstance(v, str | int | float) and v != ""}
    said = ", ".join(f"{key} {printable(str(value), 200)}" for key, value in facts.items())
    return f"{said}; {hosts}" if hosts else said, hosts or said


def _starts(engine: TriesStarts) -> str:
    """Start a sandbox, and say what was not in force in it."""
    lacking = [f"{c.name} ({printable(c.detail, 200)})" for c in engine.try_start() if not c.in_force]
    return f"one starts; not in force: {'; '.join(lacking)}" if lacking else "one starts; all controls are in force"


def _trials(name: str, found: list[Backend]) -> Iterator[Check]:
    """A sandbox on the engine that was `found`, if one was."""
    for backend in found:
        if isinstance(backend, TriesStarts):
            yield name, True, partial(_starts, backend)


def _lacking(made: Callable[[], Backend]) -> tuple[str, str]:
    """Controls that the backend cannot put in force, with its reasons: what `require_controls` refuses."""
    found = made()
    lacking = [f"{name} ({printable(why, 200)})" for name, why in found.cannot.items() if name in CONTROLS]
    names = [name for name in found.cannot if name in CONTROLS]
    if not names:
        return "all can be set", ""
    return f"cannot set: {'; '.join(lacking)}", f"cannot set: {', '.join(names)}"


def host_sentence(host: Host) -> str:
    """What a host offers to jobs, for people.

    >>> host_sentence(Host("big", slots=4, cpus=16, memory_bytes=64 << 30, gpus=("0", "1"), labels=frozenset({"lab"})))
    'big: 4 slots, 16 cpus, 64 GiB, 2 GPUs, labels lab'
    """
    parts = [
        f"{host.slots} slots" if host.slots is not None else "",
        f"{host.cpus:g} cpus" if host.cpus is not None else "",
        f"{host.memory_bytes / 2**30:.0f} GiB" if host.memory_bytes is not None else "",
        f"{len(host.gpus)} GPUs" if host.gpus else "",
        f"labels {' '.join(sorted(host.labels))}" if host.labels else "",
    ]
    said = ", ".join(part for part in parts if part)
    return f"{printable(host.name, 60) or 'here'}: {said or 'no limits known'}"


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

    from trace_bench.errors import EnvironmentUnavailable
    from trace_bench.gateway.real import GET_LITELLM
    from trace_bench.planning.environment import DOTENV, Variables, read_dotenv
    from trace_bench.planning.services import SERVICES

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


def _services() -> str:
    """What suites need on the host besides sandboxes."""
    from trace_bench.execution.service_host import load_services
    from trace_bench.suites.registry import load_suites

    declared = (name for suite in load_suites().values() for name in suite.services)
    return "; ".join(f"{service.name}: {service.check()}" for service in load_services(declared).values()) or "none"


_CHECKS: tuple[Check, ...] = (
    ("images", False, _images),
    ("services", False, _services),
    ("tasks", True, _tasks),
    ("trainers", True, _trainers),
    ("models", False, _models),
    ("disk", True, _disk),
)


def _checks(backend: str, config: Path | None) -> Iterator[Check]:
    from trace_bench.cli.places import places_for
    from trace_bench.planning.backends import BACKEND_VARIABLE, backend_name, connect_backend

    places = places_for(backend, config)
    name = backend_name(places.backend)
    yield "python", True, _python
    if named := os.environ.get(BACKEND_VARIABLE):
        yield (
            "variable",
            False,
            lambda: f"{BACKEND_VARIABLE}={printable(named, 80)}, where nothing else says",
        )
    if name == "docker" and places.docker.hosts:
        for host in places.docker.hosts:
            alone = places.model_copy(update={"docker": DockerConfig(hosts=(host,))})
            found: list[Backend] = []
            yield f"host {host.called}", True, partial(_backend, alone, found)
            yield from _trials(f"sandbox {host.called}", found)
        yield "controls", False, partial(_lacking, partial(connect_backend, places))
    elif name == "docker":
        engine: list[Backend] = []
        yield "engine", True, partial(_engine, engine)
        yield from _trials("sandbox", engine)
    else:
        made: list[Backend] = []
        yield name, True, partial(_backend, places, made)
        if made:  # what has not answered is not asked again, which may take a minute
            yield "controls", False, partial(_lacking, lambda: made[0])
    yield from _CHECKS
