"""The interface of a sandbox, which every backend implements.

A backend starts one command in a sandbox and opens one byte stream to it from outside. The meaning of the bytes is not
its concern (see ``docs/design/job-contract.md``). Isolation is: which `Control` was asked for, and which is in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from trace_bench.config.gpus import device_of
from trace_bench.errors import ConfigError

Integrity = Literal["protected", "unprotected"]
SandboxState = Literal["created", "running", "exited", "removed"]

CONTROLS: Mapping[str, str] = {
    "network": "no network but the sandbox's own loopback",
    "capabilities": "SETUID, SETGID, KILL and CHOWN for the supervisor, none else",
    "no_new_privileges": "no process gains rights by executing a file",
    "mounts": "nothing of the host is mounted: one volume at /out, no engine socket, no device but GPUs asked for",
    "namespaces": "own process, network, mount, IPC and host-name namespaces; not privileged",
    "seccomp": "the engine's default system-call filter",
    "apparmor": "the engine's default AppArmor profile",
    "read_only_root": "the image's files cannot be changed",
    "memory": "memory limit",
    "swap": "no swap beyond the memory limit",
    "cpus": "CPU limit",
    "pids": "limit of processes and threads",
    "nofile": "limit of open files of a process",
    "core": "no core dumps",
    "tmpfs": "/tmp and /run in memory, sized, nosuid, nodev",
    "noexec": "nothing in /tmp and /run can be executed",
    "ipc": "no /dev/shm, no message queue, semaphore or shared memory that outlives its process",
    "init": "a reaper as process 1",
    "log_cap": "the engine's log of the stream is capped",
    "user": "the supervisor is uid 0 of the sandbox, phases and candidates have uids of their own",
    "disk": "limit of what the sandbox can write to /out",
    "runtime": "the runtime that was asked for",
}
"""Every control by name, and what it means. Documented in ``docs/reference/sandbox-controls.md``."""

FEATURES: Mapping[str, str] = {
    "oom_flag": "says whether the memory limit killed something",
    "quota": "holds /out to its size as a whole, by itself",
    "connection": "the stream is a connection that can break while the sandbox runs on",
    "adoption": "a sandbox that runs can be taken over by another controller",
    "owners": "what is collected says who owns each file",
}
"""Other abilities of a backend, by name, and what each means."""

NEVER_WEAKER = frozenset({"network", "capabilities", "no_new_privileges", "mounts", "namespaces", "user", "runtime"})
"""Controls that no config can give up: without any of them results are meaningless."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
SMALLEST_MEMORY = 64 << 20
SMALLEST_PIDS = 8


@dataclass(frozen=True)
class Resources:
    """The limits of one sandbox.

    Raises:
        ConfigError: a value is out of range.
    """

    cpus: float = 1.0
    """CPU time per wall time."""
    memory_bytes: int = 2 << 30
    """Memory of all processes together, /tmp and /run included; there is no swap beyond it."""
    disk_bytes: int = 256 << 20
    """What may be written to /out."""
    tmp_bytes: int = 256 << 20
    """Size of /tmp, part of `memory_bytes` once it is used."""
    pids: int = 256
    """Processes and threads of the whole sandbox."""
    nofile: int = 1024
    """Open files of one process."""
    gpus: int = 0
    """Whole GPUs: those in `SandboxRequest.gpu_names`. If that is empty, the engine picks them."""

    def __post_init__(self) -> None:
        for name, smallest in (
            ("cpus", 0.01),
            ("memory_bytes", SMALLEST_MEMORY),
            ("disk_bytes", 1 << 20),
            ("tmp_bytes", 1 << 20),
            ("pids", SMALLEST_PIDS),
            ("nofile", 64),
            ("gpus", 0),
        ):
            value = getattr(self, name)
            if value < smallest:
                raise ConfigError(f"sandbox resource {name} is {value}; give at least {smallest}")


@dataclass(frozen=True)
class Host:
    """One machine, or service, on which a backend makes sandboxes, as the scheduler sees it.

    Attributes:
        name: as in `SandboxRequest.host`; empty if there is only one.
        slots: sandboxes at a time; None is no limit.
        cpus: cores; None is no limit.
        memory_bytes: memory of its sandboxes together; None is no limit.
        gpus: devices that may be leased, by the names that `SandboxRequest.gpu_names` takes. None if they are unknown:
            the engine then picks the GPUs of a job, without a lease.
        labels: names that jobs may ask for.
        starting: sandboxes that may start at once; None is one per core.
        creations_per_second: sandboxes that all controllers of a user may create together; None is no limit.
        scope: a name of the machine that is the same for all its users: leases of one scope exclude each other.
    """

    name: str = ""
    slots: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: tuple[str, ...] | None = None
    labels: frozenset[str] = frozenset()
    starting: int | None = None
    creations_per_second: float | None = None
    scope: str = "local"


@dataclass(frozen=True)
class Traits:
    """The properties by which backends differ for those who plan a run.

    Attributes:
        images: where sandboxes get theirs: from the user's ``engine``, on which they are built; from the ``registry``
            to which they were pushed; or ``none``, since sandboxes need no image.
        is_service: a service makes as many sandboxes as are requested, and charges for their seconds.
        ends_after_a_day: it ends every sandbox after a day.
    """

    images: Literal["engine", "registry", "none"] = "engine"
    is_service: bool = False
    ends_after_a_day: bool = False


@dataclass(frozen=True)
class SandboxRequest:
    """One sandbox to be created.

    Attributes:
        name: unique on the engine; letters, digits, ``_``, ``.`` and ``-``.
        image: the backend's name of an image; the local backend ignores it.
        command: started without a shell. ``python3`` as its first word is the image's Python.
        labels: see `trace_bench.sandbox.labels`.
        uid_base: first uid of the job's block (`trace_bench.sandbox.uids`).
        runtime: a stronger runtime of the engine (``runsc``); None is the engine's default.
        require_controls: controls that must be in force, beyond those that the backend always requires.
        allow_weaker: controls that this sandbox may lack. ``read_only_root``, ``noexec`` and ``ipc`` are turned off.
            Others may be missing if the host cannot set them.
        host: name of the `Host` to make it on; empty if there is only one.
        gpu_names: the GPUs that it gets, by that host's names.
        cpuset: the cores that it runs on, which no other pinned sandbox uses meanwhile; empty is any.
        most_seconds: the longest time that its command can take. A service may end it afterwards. None is no limit.

    Raises:
        ConfigError: a control has an unknown name, is both required and given up, or cannot be given up.
    """

    name: str
    image: str
    command: tuple[str, ...]
    labels: Mapping[str, str]
    uid_base: int
    resources: Resources = field(default_factory=Resources)
    runtime: str | None = None
    require_controls: frozenset[str] = frozenset()
    allow_weaker: frozenset[str] = frozenset()
    host: str = ""
    gpu_names: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    most_seconds: float | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"sandbox name {self.name!r} has other than ASCII letters, digits, '_', '.' and '-'; choose another."
            )
        for key, names in (("require_controls", self.require_controls), ("allow_weaker", self.allow_weaker)):
            unknown = sorted(names - CONTROLS.keys())
            if unknown:
                raise ConfigError(f"{key}: no control is called {unknown[0]!r}; known are {', '.join(CONTROLS)}")
        if self.gpu_names and (len({device_of(name) for name in self.gpu_names}) != self.resources.gpus):
            raise ConfigError(
                f"gpu_names are {', '.join(self.gpu_names)}, which are not the {self.resources.gpus} devices that "
                "resources.gpus asks for"
            )
        both = sorted(self.require_controls & self.allow_weaker)
        if both:
            raise ConfigError(f"control {both[0]!r} is in require_controls and in allow_weaker; name it in one of them")
        never = sorted(self.allow_weaker & NEVER_WEAKER)
        if never:
            raise ConfigError(f"allow_weaker: control {never[0]!r} cannot be given up; take it out of allow_weaker")


@dataclass(frozen=True)
class Control:
    """One control of one sandbox, read back from what is in force.

    Attributes:
        known: False before the start, for a control that the engine reports only afterwards. `in_force` is then False.
    """

    name: str
    wanted: str
    in_force: bool
    detail: str
    known: bool = True


@dataclass(frozen=True)
class ExitStatus:
    """The exit of a sandbox.

    Attributes:
        code: exit code of the command, 128 + signal if a signal killed it; None if the end was not observed.
        oom_killed: the memory limit killed a process of the sandbox, which may have been any.
        error: the engine's message, often empty.
    """

    code: int | None
    oom_killed: bool
    error: str


class Stream(Protocol):
    """The byte stream to a sandbox: its stdin and stdout. One thread may read while another writes."""

    def read(self, timeout: float) -> bytes | None:
        """Bytes of stdout, as many as are there; ``b""`` at the end of the stream; None if nothing came in `timeout`
        seconds.

        Raises:
            SandboxError: the connection broke.
        """

    def write(self, data: bytes) -> None:
        """Write all of `data` to stdin. Output that arrives meanwhile is kept for `read`: two full pipes cannot block
        each other.

        Raises:
            StreamTimeout: the sandbox did not take it within the stream's deadline.
            SandboxError: the sandbox or the connection is gone.
        """

    def fileno(self) -> int:
        """For `select`: once it is readable, call `read(0)` until it returns None, then wait again."""

    def close(self) -> None:
        """Detach. The sandbox runs on and sees no end of file."""


class Sandbox(Protocol):
    """One sandbox, created or adopted. All methods but `attach` may be called from any thread."""

    @property
    def id(self) -> str:
        """The backend's own name of it."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def host(self) -> str:
        """Name of the `Host` that it is on; empty if there is only one."""

    def attach(self) -> Stream:
        """Open the stream. Output before the first `attach` may be lost unless that comes before `start`, and so may
        output between two attached streams."""

    def start(self) -> None:
        """Start the command."""

    def controls(self) -> list[Control]:
        """The controls as they are now. After `start` each is `Control.known`."""

    def status(self) -> SandboxState: ...

    def wait(self, timeout: float) -> ExitStatus | None:
        """Wait for the end; returns the exit, or None if there is none after `timeout` seconds."""

    def kill(self) -> None:
        """End every process of the sandbox, at once. Nothing happens if it has ended."""

    def last_words(self) -> str:
        """The end of stderr as the backend kept it, at most 64 KiB, with what is not UTF-8 replaced. It is kept also
        while no stream is attached."""

    def collect(self) -> Iterator[bytes]:
        """A tar stream of /out, of a running or an ended sandbox. Members are called ``out/…``. Hostile input.

        Raises:
            SandboxError: it cannot be read.
        """

    def remove(self) -> None:
        """Remove it with all that it wrote, in any state. A second call does nothing."""


class Backend(Protocol):
    """Makes sandboxes and finds them again."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    @property
    def integrity(self) -> Integrity:
        """Results of an ``unprotected`` backend are flagged in every table."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of `CONTROLS` that it can put in force here, and of `FEATURES` that it has."""

    @property
    def cannot(self) -> Mapping[str, str]:
        """All other names of `CONTROLS` and `FEATURES`, each with the reason. Users read them. Checks of
        `tests.sandbox.conformance` that need one of them are skipped."""

    @property
    def default_uid_base(self) -> int:
        """First uid that jobs may have here."""

    def hosts(self) -> Sequence[Host]:
        """The hosts on which it makes sandboxes, at least one. Called at the beginning of a run, and again while a host
        is gone.

        Raises:
            SandboxError: none of them answers. One of several that does not is left out.
        """

    def check(self) -> None:
        """Raise EnvironmentUnavailable, with a remedy, if the backend cannot work on this machine."""

    def create(self, request: SandboxRequest) -> Sandbox:
        """Create a sandbox without starting it. Nothing is left behind if it fails.

        A required control that is not `Control.known` before the start is for the caller to check after it, before
        the sandbox is given its job.

        Raises:
            SandboxError: the backend refused; EnvironmentUnavailable: a required control cannot be put in force.
        """

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        """All sandboxes that carry `labels`, in any state, also those of a controller that died."""

    def uid_bases_in_use(self) -> frozenset[int]:
        """First uids of the blocks of all running sandboxes, whichever controller started them."""

    def describe(self) -> dict[str, Any]:
        """Facts for ``env.json`` and ``doctor``; JSON values only."""


@runtime_checkable
class TriesStarts(Protocol):
    """A `Backend` that can try at no cost whether its engine starts sandboxes."""

    def try_start(self) -> list[Control]:
        """Start a sandbox that does nothing, and remove it. Return its controls.

        Raises:
            SandboxError, EnvironmentUnavailable: the engine cannot start one.
        """


ImageSupply = Callable[[str, Any, Callable[[], bool]], str]
"""Brings one image to a host. Its arguments are the host's name, a client of its engine (`docker.DockerClient`), and a
function that returns True once the image is no longer needed. It returns the image's name there.

Raises:
    EnvironmentUnavailable: the image cannot be brought there. Interrupted: it is no longer needed.
"""


@runtime_checkable
class SuppliesImages(Protocol):
    """A `Backend` that may wait long for images."""

    def stop_supplying_when(self, stopped: Callable[[], bool]) -> None:
        """Give up images that are under way once `stopped` returns True: calls that wait raise `Interrupted`."""


@runtime_checkable
class SeveralEngines(SuppliesImages, Protocol):
    """A `Backend` whose hosts have images of their own."""

    def unreachable(self) -> Mapping[str, str]:
        """The hosts that did not answer when they were last called, by name, with the reasons."""

    def supply_image(self, image: str, supply: ImageSupply) -> None:
        """Have `supply` bring `image` to a host before the first sandbox of it there."""

    def bring_image(self, image: str, host: str) -> str:
        """Bring `image` to `host` unless it is there, as `Backend.create` does. The first time can take minutes.

        Returns its name on the host.

        Raises:
            SandboxError: as `Backend.create`. Interrupted: it was given up.
        """

    def first_engine(self) -> Any:
        """A client (`docker.DockerClient`) of the first host that answers, for calls that take long; to be closed.

        Raises:
            SandboxError: none does.
        """
