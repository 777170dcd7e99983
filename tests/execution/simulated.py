"""A backend without an engine: its sandboxes are `tests.execution.supervisor.Supervisor`s in this process.

It outlives the controllers that use it, as an engine does. No thread is a sandbox's own: it moves on when it is read
from, written to or looked at.
"""

from __future__ import annotations

import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.execution.supervisor import Script, Supervisor
from trace_bench.artifacts.contract import Integrity
from trace_bench.sandbox.base import Control, ExitStatus, Host, SandboxRequest, SandboxState, Traits
from trace_bench.sandbox.errors import EngineGone, SandboxRemoved
from trace_bench.sandbox.labels import JOB, UID_BASE, matches

UID_BASE_OF_TESTS = 0x60000000


@dataclass
class SimulatedBackend:
    """Makes simulated sandboxes and counts them.

    Attributes:
        script: what the n-th sandbox (from 1) of a job does.
        cpus, memory_bytes: as `describe` tells them.
        on_create: called with each request, before its sandbox is there.
        created: the jobs that sandboxes were made for, in that order.
        removed: how many were removed.
        most_alive, most_starting, most_memory: at one time: sandboxes that were there, that had not spoken yet, and
            the bytes that those which were there declared.
        gone_until: until when (monotonic clock) the engine does not answer.
        several: hosts, where there is more than one.
        away: until when each of them does not answer.
        archive: makes the archive of a sandbox's volume from its job and its files; None is an honest engine's.
    """

    script: Callable[[str, int], Script] = lambda job_id, number: Script()
    cpus: int = 4
    memory_bytes: int | None = 64 << 30
    on_create: Callable[[SandboxRequest], None] = lambda request: None
    name: str = "simulated"
    traits: Traits = field(default_factory=Traits)
    integrity: Integrity = "protected"
    capabilities: frozenset[str] = frozenset()
    cannot: Mapping[str, str] = field(default_factory=dict)
    default_uid_base: int = UID_BASE_OF_TESTS
    created: list[str] = field(default_factory=list)
    removed: int = 0
    most_alive: int = 0
    most_starting: int = 0
    most_memory: int = 0
    gone_until: float = 0.0
    several: Sequence[Host] = ()
    away: dict[str, float] = field(default_factory=dict)
    archive: Callable[[Mapping[str, Any], dict[str, bytes]], Iterator[bytes]] | None = None
    _numbers: Counter[str] = field(default_factory=Counter)
    _alive: dict[str, SimulatedSandbox] = field(default_factory=dict)
    _starting: int = 0
    _memory: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None: ...

    def create(self, request: SandboxRequest) -> SimulatedSandbox:
        self.answer(request.host)
        self.on_create(request)
        job_id = request.labels[JOB]
        with self._lock:
            self.created.append(job_id)
            self._numbers[job_id] += 1
            number = self._numbers[job_id]
            sandbox = SimulatedSandbox(self, f"{job_id}-{number}", request, self.script(job_id, number))
            self._alive[sandbox.id] = sandbox
            self._starting += 1
            self._memory += request.resources.memory_bytes
            self.most_alive = max(self.most_alive, len(self._alive))
            self.most_starting = max(self.most_starting, self._starting)
            self.most_memory = max(self.most_memory, self._memory)
        return sandbox

    def find(self, labels: Mapping[str, str]) -> list[SimulatedSandbox]:
        self.answer()
        with self._lock:
            here = [sandbox for sandbox in self._alive.values() if not self._is_away(sandbox.host)]
            return [sandbox for sandbox in here if matches(sandbox.labels, labels)]

    def uid_bases_in_use(self) -> frozenset[int]:
        return frozenset(int(s.labels[UID_BASE]) for s in self.find({}) if s.status() == "running")

    def hosts(self) -> Sequence[Host]:
        if self.several and all(self._is_away(host.name) for host in self.several):
            raise EngineGone("no simulated engine answers")
        alone = (Host(cpus=self.cpus, memory_bytes=self.memory_bytes),)
        return [host for host in self.several if not self._is_away(host.name)] if self.several else alone

    def describe(self) -> dict[str, Any]:
        return {"cpus": self.cpus, "memory_bytes": self.memory_bytes}

    @property
    def alive(self) -> int:
        """Sandboxes that are there."""
        return len(self._alive)

    def go(self, seconds: float) -> None:
        """Stop answering for `seconds`; sandboxes live on."""
        self.gone_until = time.monotonic() + seconds

    def answer(self, host: str = "") -> None:
        """Raise if the engine is gone."""
        if time.monotonic() < self.gone_until or self._is_away(host):
            raise EngineGone("the simulated engine does not answer")

    def _is_away(self, host: str) -> bool:
        return time.monotonic() < self.away.get(host, 0.0)

    def has(self, sandbox: SimulatedSandbox) -> bool:
        return sandbox.id in self._alive

    def spoke(self) -> None:
        with self._lock:
            self._starting -= 1

    def forget(self, sandbox: SimulatedSandbox) -> None:
        with self._lock:
            if self._alive.pop(sandbox.id, None) is not None:
                self.removed += 1
                self._memory -= sandbox.request.resources.memory_bytes


class SimulatedSandbox:
    """One sandbox, and the stream to it."""

    def __init__(self, backend: SimulatedBackend, id_: str, request: SandboxRequest, script: Script) -> None:
        self.id = id_
        self.name = request.name
        self.host = request.host
        self.labels = {**request.labels, UID_BASE: str(request.uid_base)}
        self.request = request
        self._backend = backend
        self._script = script
        self._supervisor: Supervisor | None = None
        self._killed = False
        self._lock = threading.RLock()
        self._stirred = threading.Event()

    @property
    def supervisor(self) -> Supervisor:
        if self._supervisor is None:
            raise SandboxRemoved(f"{self.id} has not been started")
        return self._supervisor

    def attach(self) -> SimulatedSandbox:
        self._backend.answer(self.host)
        with self._lock:
            if self._supervisor is not None:
                self._supervisor.outgoing.clear()
        return self

    def start(self) -> None:
        self._backend.answer(self.host)
        with self._lock:
            self._supervisor = Supervisor(self._script, on_first_word=self._backend.spoke, on_outage=self._backend.go)

    def controls(self) -> list[Control]:
        return [Control("network", "none", True, "simulated")]

    def status(self) -> SandboxState:
        code = self._move()
        if not self._backend.has(self):
            return "removed"
        if self._supervisor is None:
            return "created"
        return "running" if code is None else "exited"

    def wait(self, timeout: float) -> ExitStatus | None:
        code = self._move()
        return None if code is None else ExitStatus(code, False, "")

    def kill(self) -> None:
        self._backend.answer(self.host)
        with self._lock:
            if self._supervisor is not None:
                self._supervisor.end(137)
            elif not self._killed:
                self._backend.spoke()
            self._killed = True
        self._stirred.set()

    def interrupt(self) -> None:
        """Ask the supervisor, as ``docker stop`` does, to end in order."""
        with self._lock:
            self.supervisor.stop("interrupted")
        self._move()

    def last_words(self) -> str:
        return ""

    def collect(self) -> Iterator[bytes]:
        self._move()
        if not self._backend.has(self):
            raise SandboxRemoved(f"{self.id} has been removed")
        files = self._supervisor.volume() if self._supervisor is not None else {}
        job = self._supervisor.job if self._supervisor is not None else None
        if self._backend.archive is not None and job is not None:
            yield from self._backend.archive(job, files)
            return
        yield _header("out", None) + _header("out/extra", None)
        for name, data in files.items():
            yield _header(f"out/{name}", data) + data + bytes(-len(data) % 512)
        yield bytes(1024)

    def remove(self) -> None:
        self.kill()
        self._backend.forget(self)

    # -- the stream ------------------------------------------------------------------------------------------------

    def read(self, timeout: float) -> bytes | None:
        deadline = time.monotonic() + timeout
        while True:
            self._stirred.clear()
            code = self._move()
            with self._lock:
                if self._supervisor is not None and self._supervisor.outgoing:
                    data = bytes(self._supervisor.outgoing)
                    self._supervisor.outgoing.clear()
                    return data
            if code is not None:
                return b""
            now = time.monotonic()
            if now >= deadline:
                return None
            wish = self._supervisor.wish if self._supervisor is not None else deadline
            self._stirred.wait(max(0.0, min(wish if isinstance(wish, float) else deadline, deadline) - now))

    def write(self, data: bytes) -> None:
        self._backend.answer(self.host)
        with self._lock:
            self.supervisor.write(data)
        self._move()
        self._stirred.set()  # another thread may wait in `read`

    def fileno(self) -> int:
        raise NotImplementedError("a simulated stream has no descriptor")

    def close(self) -> None: ...

    def _move(self) -> int | None:
        """Let the supervisor live on; its exit code if it has ended."""
        self._backend.answer(self.host)
        with self._lock:
            if self._supervisor is None:
                return 137 if self._killed else None
            self._supervisor.move()
            return self._supervisor.exit


_headers: dict[tuple[str, int | None], bytes] = {}


def _header(name: str, data: bytes | None) -> bytes:
    """The tar header of a file, or of a folder if there is no `data`."""
    key = (name, None if data is None else len(data))
    if key not in _headers:
        member = tarfile.TarInfo(name)
        member.type, member.size = (tarfile.DIRTYPE, 0) if data is None else (tarfile.REGTYPE, len(data))
        member.mode = 0o755 if data is None else 0o644
        _headers[key] = member.tobuf(tarfile.USTAR_FORMAT)
    return _headers[key]
