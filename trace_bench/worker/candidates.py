"""Candidate programs, as a phase sees them: open one, call it, close it. Implements `problem.Programs`."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from trace_bench.worker import channel, memory
from trace_bench.worker.codec import CodecError
from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.frames import FrameTooLarge
from trace_bench.worker.preload import worth_preloading
from trace_bench.worker.problem import CandidateError, Limits, ProblemError
from trace_bench.worker.sentences import sentence, signal_name

NO_FILES: Mapping[str, bytes | int] = MappingProxyType({})


class SpawnerClient:
    """A phase's end of the spawner's socket. One request at a time, from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def open(
        self, limits: Limits, modules: list[str], files: Mapping[str, bytes | int] = NO_FILES
    ) -> tuple[int, socket.socket, mmap.mmap | None]:
        """Start a candidate process: its number, the socket to it, and the memory that it shares, if any.

        Raises:
            ProblemError: none could be started.
        """
        request = {
            "op": "open",
            "modules": modules,
            "limits": {
                "cpu_seconds": limits.cpu_seconds,
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes,
                "shared_bytes": limits.shared_bytes,
                "file_bytes": limits.file_bytes,
            },
            "needs": sorted(limits.needs),
            "files": list(files),
        }
        made = {name: file_of(content) for name, content in files.items() if isinstance(content, bytes)}
        try:
            reply, fds = self._ask(request, [int({**files, **made}[name]) for name in files])
        finally:
            for fd in made.values():
                os.close(fd)
        if reply["op"] != "opened":
            raise ProblemError(f"no candidate process could be started: {reply.get('message')}")
        shared = None
        if limits.shared_bytes:
            shared = mmap.mmap(fds[1], limits.shared_bytes)
            os.close(fds[1])
        return int(reply["id"]), socket.socket(fileno=fds[0]), shared

    def hold(self, number: int, *, held: bool) -> bool | None:
        """Stop all threads of the candidate, or let them go on: False if it does not stop, None if it has ended."""
        done = self._ask({"op": "hold", "id": number, "held": held})[0]["done"]
        return None if done is None else bool(done)

    def cpu_seconds(self, number: int) -> float | None:
        """CPU seconds of the candidate's process so far; None where the kernel has no clock for it."""
        seconds = self._ask({"op": "cpu", "id": number})[0]["seconds"]
        return None if seconds is None else float(seconds)

    def close(self, number: int, *, hung_up: bool = False) -> dict[str, Any]:
        """Kill the candidate: its ``code``, ``signal``, ``cpu_seconds``, ``over_cpu``, whether its uid is ``swept``.

        Args:
            hung_up: the candidate closed its end, so its exit is worth waiting for.
        """
        return self._ask({"op": "close", "id": number, "hung_up": hung_up})[0]

    def _ask(self, request: dict[str, Any], passed: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            send_datagram(self._sock, request, passed)
            received = receive_datagram(self._sock)
        if received is None:
            raise ProblemError("the spawner has ended")
        return received


class CandidatePrograms:
    """Opens candidates through the spawner.

    Args:
        seed: seeds Python's and NumPy's global generators inside each candidate.
    """

    def __init__(self, spawner: SpawnerClient, seed: int) -> None:
        self.spawner = spawner
        self.seed = seed

    def open(
        self,
        source: str,
        entry: str,
        limits: Limits | None = None,
        support: str = "",
        files: Mapping[str, bytes | int] = NO_FILES,
    ) -> CandidateProgram:
        """See `problem.Programs.open`. The process starts at the first call."""
        return CandidateProgram(self, source, entry, limits or Limits(), support, files)


class CandidateProgram:
    """One candidate in one process. After a failure every further call repeats that failure.

    Attributes:
        cpu_seconds: see `problem.Program.cpu_seconds`.
    """

    def __init__(
        self,
        programs: CandidatePrograms,
        source: str,
        entry: str,
        limits: Limits,
        support: str,
        files: Mapping[str, bytes | int],
    ) -> None:
        self._spawner = programs.spawner
        self._seed = programs.seed
        self._source = source
        self._entry = entry
        self._support = support
        self._files = files
        self._limits = limits
        self._nonces = channel.nonces()
        self._number: int | None = None
        self._sock: socket.socket | None = None
        self._failure: CandidateError | None = None
        self._oom_kills: int | None = None
        self._waited = 0.0
        self._shared: mmap.mmap | None = None
        self._held = False
        self.cpu_seconds = 0.0

    def __enter__(self) -> CandidateProgram:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(self, *args: Any) -> Any:
        sock = self._sock
        if sock is None:
            sock = self._start()
        if self._held:
            self._hold(False)
        return self._exchange(sock, channel.CALL, args)

    @property
    def shared(self) -> memoryview:
        return memoryview(self._shared or b"")

    def timed(
        self, fill: Callable[[memoryview], None], *args: Any, settle: Callable[[], None] | None = None
    ) -> tuple[Any, float]:
        """See `problem.Program.timed`."""
        sock = self._sock
        if sock is None:
            sock = self._start()
        self._hold(True)
        fill(self.shared)
        began = time.perf_counter()
        self._hold(False)
        answer = self._exchange(sock, channel.CALL, args)
        self._hold(True)
        if settle is not None:
            settle()
        return answer, time.perf_counter() - began

    def metered(self, *args: Any) -> tuple[Any, float]:
        """See `problem.Program.metered`."""
        if {"processes", "compiler"} & self._limits.needs:
            raise ProblemError("a program that may fork cannot be metered: the CPU time of its children is not its own")
        sock = self._sock
        if sock is None:
            sock = self._start()
        if self._held:
            self._hold(False)
        before = self._cpu_seconds()
        answer = self._exchange(sock, channel.CALL, args)
        return answer, max(0.0, self._cpu_seconds() - before)

    def _cpu_seconds(self) -> float:
        assert self._number is not None
        seconds = self._spawner.cpu_seconds(self._number)
        if seconds is None:
            raise ProblemError("the kernel of this sandbox does not say how much CPU time a process has used")
        return seconds

    def close(self) -> None:
        """Kill the process. Idempotent."""
        self._end()

    def _start(self) -> socket.socket:
        if self._failure is not None:
            raise self._failure
        if not isinstance(self._source, str):
            raise self._fail(CandidateError("compile", "the program is not text"))
        self._oom_kills = memory.oom_kills()
        self._number, sock, self._shared = self._spawner.open(
            self._limits, worth_preloading(self._source + self._support), self._files
        )
        self._sock = sock
        channel.set_timeout(sock, self._limits.wall_seconds)
        request = {"source": self._source, "support": self._support, "entry": self._entry, "seed": self._seed}
        self._exchange(sock, channel.LOAD, request)
        return sock

    def _exchange(self, sock: socket.socket, op: int, value: Any) -> Any:
        """Send a question and return its answer."""
        limits = self._limits
        if self._waited > limits.life_seconds:
            raise self._fail(
                CandidateError("timeout", f"its answers took more than {limits.life_seconds:g} s of wall time together")
            )
        began = time.monotonic()
        deadline = began + limits.wall_seconds
        nonce = next(self._nonces)
        try:
            channel.send(sock, op, nonce, value, deadline)
            op, reply = channel.receive_answer(sock, nonce, limits.output_bytes, deadline)
        except channel.ChannelTimeout:
            raise self._fail(
                CandidateError("timeout", f"no answer within {limits.wall_seconds:g} s of wall time")
            ) from None
        except channel.ChannelClosed:
            raise self._fail(None) from None
        except FrameTooLarge as error:
            raise self._fail(
                CandidateError("output", f"the result has {error.size} bytes; the limit is {limits.output_bytes}")
            ) from None
        except CodecError as error:
            raise self._fail(CandidateError("output", str(error))) from None
        self._waited += time.monotonic() - began
        if op == channel.RESULT:
            return reply
        raise self._fail(_reported(reply))

    def _hold(self, held: bool) -> None:
        assert self._number is not None
        if held != self._held:
            done = self._spawner.hold(self._number, held=held)
            if not done:
                stays = None if done is None else CandidateError("timeout", "its process did not stop when it had to")
                raise self._fail(stays)
        self._held = held

    def _fail(self, failure: CandidateError | None) -> CandidateError:
        ended = self._end(hung_up=failure is None)
        self._failure = failure or _death(ended, self._limits, memory.kills_since(self._oom_kills))
        return self._failure

    def _end(self, *, hung_up: bool = False) -> dict[str, Any]:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self._shared, self._held = None, False  # unmapped with the last view of it
        if self._number is None:
            return {"code": None, "signal": None}
        number, self._number = self._number, None
        ended = self._spawner.close(number, hung_up=hung_up)
        self.cpu_seconds = ended.get("cpu_seconds", 0.0)
        return ended


def file_of(data: bytes) -> int:
    """Descriptor of a sealed file in memory that holds `data`."""
    fd = os.memfd_create("file", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def _reported(reply: Any) -> CandidateError:
    if not isinstance(reply, dict):
        return CandidateError("output", "the candidate's process answered with something that is no answer")
    phase, message, line = reply.get("phase"), reply.get("message"), reply.get("line")
    if not isinstance(phase, str) or phase not in ("compile", "call", "memory", "output"):
        phase = "call"
    return CandidateError(
        phase,
        sentence(message, 2000) if isinstance(message, str) else "unknown error",
        line=line if type(line) is int and 0 < line < 1_000_000 else None,
    )


def _death(ended: dict[str, Any], limits: Limits, oom_kills: int | None) -> CandidateError:
    """The error of a candidate that died without an answer.

    Args:
        oom_kills: processes of the sandbox that the kernel killed for want of memory meanwhile; None if unknown.
    """
    number = ended.get("signal")
    if ended.get("over_cpu") is True:
        return CandidateError("timeout", f"the program used more than {limits.cpu_seconds:g} s of CPU time")
    if number is not None:
        name = signal_name(number)
        if number == signal.SIGKILL and oom_kills:
            return CandidateError("memory", f"the process was killed for want of memory: {memory.said()}")
        if number == signal.SIGKILL:
            why = "whether for want of memory is not known" if oom_kills is None else "and not for want of memory"
            return CandidateError("died", f"the process was killed (SIGKILL), {why}")
        return CandidateError("died", f"the process was killed by {name}")
    return CandidateError("died", f"the process exited with code {ended.get('code')} before it answered")
