"""Facts about this machine for ``doctor``: what it has and lacks."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from trace_bench import __version__
from trace_bench.cli.backends import choose_backend
from trace_bench.config.places import DockerConfig
from trace_bench.errors import EnvironmentUnavailable, TraceBenchError
from trace_bench.execution.service_host import load_services
from trace_bench.gateway.real import GET_LITELLM
from trace_bench.images.pins import ImageStatus, list_images
from trace_bench.planning.backends import BACKEND_VARIABLE, BackendChoice, backend_name, connect_backend
from trace_bench.planning.environment import DOTENV, Variables, read_dotenv
from trace_bench.planning.known_providers import KNOWN_PROVIDERS
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.base import CONTROLS, Backend, Host, TriesStarts
from trace_bench.suites import data_sources
from trace_bench.suites.installed import load_suites
from trace_bench.suites.registry import discover
from trace_bench.trainers.registry import list_trainers

_FIRST_FACTS = ("backend", "engine", "operating_system", "architecture", "default_runtime")


@dataclass(frozen=True)
class Finding:
    """One thing that was examined.

    Attributes:
        needed: whether a run needs it.
        short: `detail` for a terminal, where that is too long for one.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    short: str = ""


def examine(backend: str, config: Path | None) -> Iterator[Finding]:
    """Examine this machine; each finding comes when it is known.

    Args:
        config: whose hosts, or whose app, are examined; None is the usual place of `backend`.

    Raises:
        ConfigError: the config is wrong, or no backend has that name.
    """
    choice = choose_backend(backend, config)
    name = backend_name(choice.backend)
    yield Finding("python", True, True, f"trace-bench {__version__} on Python {platform.python_version()}")
    if variable := os.environ.get(BACKEND_VARIABLE):
        yield Finding("variable", True, False, f"{BACKEND_VARIABLE}={variable}, where nothing else says")
    if name != "docker":
        yield from _service(name, choice)
    elif choice.docker.hosts:
        yield from _hosts(choice)
    else:
        yield from _engine("engine", "sandbox", lambda: get_backend("docker"), _engine_facts)
    for what, needed, check in (
        ("images", False, _images),
        ("services", False, _services),
        ("tasks", True, lambda: f"{len(discover())} tasks"),
        ("data", True, _data),
        ("trainers", True, _trainers),
        ("models", False, _models),
        ("disk", True, _disk),
    ):
        yield _look(what, needed, check)


def _look(name: str, needed: bool, check: Callable[[], str | tuple[str, str]]) -> Finding:
    try:
        said = check()
    except TraceBenchError as error:
        return Finding(name, False, needed, str(error))
    return Finding(name, True, needed, *((said,) if isinstance(said, str) else said))


# ------------------------------------------------------------------------------------------------------- backends


def _hosts(choice: BackendChoice) -> Iterator[Finding]:
    """Each Docker host, and the controls that the weakest of them cannot set."""
    for host in choice.docker.hosts:
        alone = choice.model_copy(update={"docker": DockerConfig(hosts=(host,))})
        connect = partial(connect_backend, alone)
        yield from _engine(f"host {host.called}", f"sandbox {host.called}", connect, _backend_facts)
    yield _look("controls", False, lambda: _lacking(connect_backend(choice)))


def _engine(
    name: str, sandbox: str, connect: Callable[[], Backend], facts: Callable[[Backend], tuple[str, str]]
) -> Iterator[Finding]:
    """An engine, and whether a sandbox starts on it."""
    try:
        engine = connect()
        said = facts(engine)
    except TraceBenchError as error:
        yield Finding(name, False, True, str(error))
        return
    yield Finding(name, True, True, *said)
    if isinstance(engine, TriesStarts):
        yield _look(sandbox, True, lambda: _starts(engine))


def _service(name: str, choice: BackendChoice) -> Iterator[Finding]:
    """A backend that is no engine. One that does not answer is not examined further, which may take a minute."""
    try:
        backend = connect_backend(choice)
        said = _backend_facts(backend)
    except TraceBenchError as error:
        yield Finding(name, False, True, str(error))
        return
    yield Finding(name, True, True, *said)
    yield _look("controls", False, lambda: _lacking(backend))


def _engine_facts(engine: Backend) -> tuple[str, str]:
    """All facts about the engine, and the few that are shown first."""
    facts = engine.describe()
    known = _plain(facts)
    known["runtimes"] = "; ".join(str(runtime) for runtime in facts.get("runtime_details") or ())
    first = [str(known[key]).partition(" (")[0][:30] for key in _FIRST_FACTS if key in known]
    if "cpus" in known:
        first.append(f"{known['cpus']} cpus")
    if "memory_bytes" in known:
        first.append(f"{int(known['memory_bytes']) / 2**30:.0f} GiB")
    return ", ".join(f"{key} {value}" for key, value in known.items()), ", ".join([" ".join(first[:2]), *first[2:]])


def _backend_facts(backend: Backend) -> tuple[str, str]:
    """The facts about a backend and its hosts, and the hosts alone."""
    hosts = "; ".join(map(host_sentence, backend.hosts()))
    facts = ", ".join(f"{key} {value}" for key, value in _plain(backend.describe()).items())
    return f"{facts}; {hosts}" if hosts else facts, hosts or facts


def _plain(facts: dict[str, object]) -> dict[str, str | int | float]:
    return {key: value for key, value in facts.items() if isinstance(value, str | int | float) and value != ""}


def _starts(engine: TriesStarts) -> str:
    """Start a sandbox, and say what was not in force in it."""
    lacking = [f"{c.name} ({c.detail})" for c in engine.try_start() if not c.in_force]
    return f"one starts; not in force: {'; '.join(lacking)}" if lacking else "one starts; all controls are in force"


def _lacking(backend: Backend) -> tuple[str, str]:
    """Controls that the backend cannot put in force, with its reasons: what `require_controls` refuses."""
    lacking = {name: why for name, why in backend.cannot.items() if name in CONTROLS}
    if not lacking:
        return "all can be set", ""
    reasons = "; ".join(f"{name} ({why})" for name, why in lacking.items())
    return f"cannot set: {reasons}", f"cannot set: {', '.join(lacking)}"


def host_sentence(host: Host) -> str:
    """A sentence about the resources of a host.

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
    return f"{host.name or 'here'}: {said or 'no limits known'}"


# ---------------------------------------------------------------------------------------------------- everything else


def _images() -> str:
    def state(row: ImageStatus) -> str:
        if row.pin is None:
            return "will be built"
        return "drifted" if row.drift else {True: "ready", False: "missing", None: "unknown"}[row.present]

    return ", ".join(f"{row.family} {state(row)}" for row in list_images())


def _services() -> str:
    """The services of suites on the host, and whether they work."""
    declared = (name for suite in load_suites().values() for name in suite.services)
    return "; ".join(f"{service.name}: {service.check()}" for service in load_services(declared).values()) or "none"


def _data() -> str | tuple[str, str]:
    """Collections and data sets that were fetched.

    Raises:
        EnvironmentUnavailable: one is damaged.
    """
    collections = {source.name: data_sources.damaged(source) for source in data_sources.SOURCES.values()
                   if data_sources.kept(source) is not None}  # fmt: skip
    copies = (copy for suite in load_suites().values() for copy in suite.data_copies())
    there = collections | {copy.name: copy.damaged() for copy in copies}
    if bad := [name for name, lost in there.items() if lost]:
        raise EnvironmentUnavailable(f"{', '.join(bad)} damaged; trace-bench data fetch gets what is lost again")
    if not there:
        return "none fetched; trace-bench data list names what there is"
    return f"fetched: {', '.join(there)}", f"{len(there)} fetched"


def _trainers() -> str:
    rows = list_trainers()
    lost = [f"{name} ({reason})" for name, available, reason in rows if not available]
    return f"{len(rows) - len(lost)} trainers" + (f"; unavailable: {', '.join(lost)}" if lost else "")


def _models() -> str:
    """The requirements of mode real: litellm, and keys by the names of their variables."""
    try:
        version = metadata.version("litellm")
    except metadata.PackageNotFoundError:
        raise EnvironmentUnavailable(f"no litellm, which mode real needs: {GET_LITELLM}") from None
    filed = read_dotenv(Path(DOTENV))
    variables = Variables({**filed, **os.environ}, {name: DOTENV for name in filed if not os.environ.get(name)})
    names = dict.fromkeys(name for provider in KNOWN_PROVIDERS.values() for name in provider.keys)
    keys = ", ".join(variables.origin(name) for name in names if variables.get(name))
    return f"litellm {version}, {'keys: ' + keys if keys else 'no key found'}"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < 2:
        raise EnvironmentUnavailable(f"{free:.1f} GiB are free here; runs and images need 2 GiB at least")
    return f"{free:.0f} GiB free"
