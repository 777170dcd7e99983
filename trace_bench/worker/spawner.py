"""The one process that forks: phases and candidates, under their own uids, from memory that holds nothing.

A forked child sees whatever its parent had in memory. The supervisor reads the job and later the held-out seed, so a
candidate must not be forked from it: the spawner is forked off before the supervisor reads its first byte, and the only
things it is ever told are uids and limits. It keeps SETUID, SETGID, KILL and CHOWN, imports only what the image's
recipe names (NumPy, say, so that it is paid once), and does four things: start a phase, open a candidate, close
a candidate, say which phase exited and what candidates it had.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import mmap
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from trace_bench.worker import candidate_runner, imports, sweep
from trace_bench.worker.confine import address_space, become, keep_only, limit, limits_of
from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.exit_codes import SPAWNER_ENDED
from trace_bench.worker.memory_guard import MemoryGuard
from trace_bench.worker.preload import LATE, PRELOADABLE
from trace_bench.worker.problem import MOST_FILES
from trace_bench.worker.reaper import Candidate, Reaper, Tally, exit_of
from trace_bench.worker.seccomp import NEEDS, Filter

PHASE_OFFSETS = {"build": 0, "train": 1, "score": 2}
CANDIDATE_OFFSETS = range(4, 16)
SWEEPER_OFFSET = 3
"""Real uid of the helpers that act on another uid's behalf; nothing ever runs as it."""


@dataclass(frozen=True)
class Options:
    """How processes are started. `uid_base` None: everything runs as the user (the local backend)."""

    uid_base: int | None
    tmp: Path
    file_bytes: int
    phase_processes: int = 128

    def uid_of(self, phase: str) -> int | None:
        """The uid that `phase` runs under; None if it runs as the user."""
        return None if self.uid_base is None else self.uid_base + PHASE_OFFSETS[phase]


@dataclass
class _Phase:
    name: str
    pid: int
    sock: socket.socket
    candidates: dict[int, Candidate] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    status: int | None = None


def fork(options: Options) -> socket.socket:
    """Fork the spawner off; returns the supervisor's end of its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            _null_stdio()
            Spawner(theirs, options).run()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(SPAWNER_ENDED)
    theirs.close()
    return ours


def _null_stdio() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


class Spawner:
    """Serves the supervisor and the phases until the supervisor hangs up."""

    def __init__(self, sock: socket.socket, options: Options) -> None:
        self._sock = sock
        self._options = options
        self._phases: dict[str, _Phase] = {}
        self._free = list(CANDIDATE_OFFSETS)
        self._next_id = 0
        self._reaper = Reaper(self._end_family, self._on_other_exit)
        self._wake: int | None = None
        self._filter = Filter()
        self._guard = MemoryGuard()
        self._selector = selectors.DefaultSelector()
        self._preloaded: set[str] = set()
        self._mapped: set[str] = set()

    def run(self) -> None:
        """The loop."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._wake = wake_write
        signal.signal(signal.SIGCHLD, lambda *_: None)
        sweep.become_subreaper()
        # Ours first, and once: every phase is forked with it already there.
        for name in ("", ".build", ".train", ".score"):
            importlib.import_module("trace_bench.worker.phases" + name)
        self._preload(name.strip() for name in os.environ.get("TRACE_BENCH_PRELOAD", "").split(","))
        gc.freeze()
        self._selector.register(self._sock, selectors.EVENT_READ, self._on_supervisor)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: self._reap(wake_read))
        while True:
            for key, _ in self._selector.select(self._guard.interval if self._phases else None):
                handler: Callable[[], bool | None] = key.data
                if handler() is False:
                    self._shut_down()
                    return
            self._forget_ended_phases()
            self._guard_memory()

    def _guard_memory(self) -> None:
        base = self._options.uid_base
        if base is None or not self._phases:
            return
        candidates = [c.uid for phase in self._phases.values() for c in phase.candidates.values() if c.uid is not None]
        phases = [base + PHASE_OFFSETS[name] for name in self._phases]
        uid = self._guard.victim(candidates, phases, time.monotonic())
        if uid is not None:
            sweep.sweep_uids([uid], base + SWEEPER_OFFSET, self._reaper.collect)

    def _preload(self, modules: Iterable[str]) -> None:
        wanted = PRELOADABLE.intersection(modules) - self._preloaded
        for module in sorted(wanted):
            # What cannot be imported here fails in the child, where it is reported.
            with contextlib.suppress(Exception):
                imports.lazy_parts(importlib.import_module(module))
                for late in LATE.get(module, ()):
                    importlib.import_module(late)
        self._preloaded |= wanted
        if wanted or not self._mapped:
            imports.read_mapped(self._mapped)

    # -- the supervisor ------------------------------------------------------------------------------------------

    def _on_supervisor(self) -> bool | None:
        received = receive_datagram(self._sock)
        if received is None:
            return False
        message, fds = received
        if message["op"] == "phase":
            self._start_phase(message["name"], fds)
        elif message["op"] == "kill":
            self._end_phase(message["name"])
        elif message["op"] == "purge":
            self._purge(Path(message["path"]), self._options.uid_of(message["name"]))
        return None

    def _start_phase(self, name: str, fds: list[int]) -> None:
        ctl, out = fds
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        uid = self._options.uid_of(name)
        home = self._options.tmp / name
        home.mkdir(mode=0o700, exist_ok=True)
        if uid is not None:
            os.chown(home, uid, uid)
        pid = os.fork()
        if pid == 0:
            self._in_child(lambda: self._run_phase(name, uid, home, ctl, out, theirs.fileno()))
        for fd in fds:
            os.close(fd)
        theirs.close()
        # A phase that asks and never reads must not hold up whoever asks the spawner to kill it.
        ours.setblocking(False)
        phase = _Phase(name, pid, ours)
        self._phases[name] = phase
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_phase(phase))

    def _run_phase(self, name: str, uid: int | None, home: Path, ctl: int, out: int, spawn: int) -> None:
        os.dup2(out, 1)
        os.dup2(out, 2)
        ctl, spawn = keep_only(ctl, spawn)
        os.setsid()
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_FSIZE, self._options.file_bytes)
        # Before the supervisor and after the candidates, should memory run out.
        Path("/proc/self/oom_score_adj").write_text("500")
        if uid is not None:
            limit(resource.RLIMIT_NPROC, self._options.phase_processes)
            become(uid, self._options.uid_base)
        self._filter.no_new_privileges()
        os.chdir(home)
        os.environ.update(HOME=str(home), TMPDIR=str(home))
        sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        from trace_bench.worker.phases import enter

        enter(name, socket.socket(fileno=ctl), socket.socket(fileno=spawn))

    def _end_phase(self, name: str) -> None:
        phase = self._phases.get(name)
        if phase is not None and phase.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(phase.pid, signal.SIGKILL)

    def _reap(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        if not self._reaper.collect() and self._wake is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake, b"x")
        self._forget_ended_phases()

    def _on_other_exit(self, pid: int, status: int) -> None:
        """A phase has ended, or an orphan of one. What follows from it waits until nothing else is being done."""
        for phase in self._phases.values():
            if phase.pid == pid:
                phase.status = status

    def _forget_ended_phases(self) -> None:
        for phase in list(self._phases.values()):
            if phase.status is not None:
                self._forget_phase(phase, phase.status)

    def _forget_phase(self, phase: _Phase, status: int) -> None:
        for number in list(phase.candidates):
            self._close_candidate(phase, number)
        if not self._sweep_after(phase) and self._options.uid_base is not None:
            # What trained must not be there while others score: better no result than that one.
            raise RuntimeError(f"processes of the {phase.name} phase cannot be ended")
        with contextlib.suppress(KeyError):
            self._selector.unregister(phase.sock)
        phase.sock.close()
        del self._phases[phase.name]
        home = self._options.tmp / phase.name
        self._remove(home, self._options.uid_of(phase.name))
        told = {"op": "exit", "name": phase.name, **exit_of(status), "candidates": phase.tally.report()}
        send_datagram(self._sock, told)

    def _end_family(self, candidate: Candidate) -> bool:
        base = self._options.uid_base
        if candidate.uid is None or base is None:
            return sweep.kill_session(candidate.pid)
        return sweep.sweep_uids([candidate.uid], base + SWEEPER_OFFSET, self._reaper.collect)

    def _sweep_after(self, phase: _Phase) -> bool:
        """End what a phase and its candidates may have left, whether or not anything is seen of it."""
        base = self._options.uid_base
        if base is None:
            return sweep.kill_session(phase.pid)
        used = {candidate.uid for other in self._phases.values() for candidate in other.candidates.values()}
        uids = [base + offset for offset in (PHASE_OFFSETS[phase.name], *CANDIDATE_OFFSETS)]
        return sweep.sweep_uids([uid for uid in uids if uid not in used], base + SWEEPER_OFFSET, self._reaper.collect)

    def _remove(self, folder: Path, owner: int | None) -> None:
        self._purge(folder, owner)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def _purge(self, folder: Path, owner: int | None) -> None:
        """Empty `folder` as the uid that owns it: root without DAC_OVERRIDE may not."""
        base = self._options.uid_base
        try:
            pid = os.fork()
        except OSError:
            # The phase has taken all processes. The supervisor asks again while it lives.
            return
        if pid == 0:
            with contextlib.suppress(BaseException):
                if base is not None and owner is not None:
                    sweep.act_as(owner, base + SWEEPER_OFFSET)
                sweep.empty(folder)
            os._exit(0)
        os.waitpid(pid, 0)

    def _shut_down(self) -> None:
        for phase in list(self._phases.values()):
            self._end_phase(phase.name)
            self._reaper.kill(phase.candidates.values())

    # -- phases and their candidates -----------------------------------------------------------------------------

    def _on_phase(self, phase: _Phase) -> None:
        if self._phases.get(phase.name) is not phase:
            # Its end was seen in the same round of the loop, before its socket's.
            return
        try:
            received = receive_datagram(phase.sock)
        except ValueError as error:
            self._reply(phase, {"op": "refused", "message": str(error)})
            return
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            # The phase is ending; _reap says how.
            self._selector.unregister(phase.sock)
            return
        message, fds = received
        if message.get("op") == "open":
            self._open_candidate(phase, message, fds)
        for fd in fds:
            os.close(fd)
        if message.get("op") == "close":
            reply = self._close_candidate(phase, message.get("id"), hung_up=message.get("hung_up") is True)
            self._reply(phase, {"op": "closed", **reply})
        elif message.get("op") == "hold":
            number = message.get("id")
            candidate = phase.candidates.get(number) if type(number) is int else None
            done = self._reaper.hold(candidate, held=message.get("held") is True) if candidate else None
            self._reply(phase, {"op": "held", "done": done})

    def _reply(self, phase: _Phase, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        with contextlib.suppress(OSError):
            send_datagram(phase.sock, message, fds)

    def _open_candidate(self, phase: _Phase, message: dict[str, Any], fds: Sequence[int]) -> None:
        """Answer a request for a process; `fds` are the descriptors of the files that it is given."""
        limits, modules = limits_of(message.get("limits")), message.get("modules", [])
        asked, names = message.get("needs", []), message.get("files", [])
        if limits is None or not all(isinstance(value, list) for value in (modules, asked, names)):
            self._reply(phase, {"op": "refused", "message": "the request has no limits that can be set"})
            return
        if len(names) != len(fds) or len(fds) > MOST_FILES or not all(map(str.isidentifier, map(str, names))):
            self._reply(phase, {"op": "refused", "message": f"a program is given {MOST_FILES} files at most"})
            return
        files = dict(zip(map(str, names), fds, strict=True))
        needs = frozenset(need for need in NEEDS if need in asked)
        shared_bytes = limits.pop("shared_bytes")
        limits["memory_bytes"] = self._guard.room(limits["memory_bytes"])
        uid: int | None = None
        if self._options.uid_base is not None:
            if not self._free:
                self._reply(phase, {"op": "refused", "message": "too many candidates are open at once"})
                return
            uid = self._options.uid_base + self._free.pop(0)
        self._preload(map(str, modules))
        if self._filter.supported:
            for stage in ("loading", "closed"):
                if taken := self._filter.stage(stage, needs):
                    self._filter.prepare(taken, needs)
        ours, theirs = socket.socketpair()
        shared: tuple[int, ...] = ()
        folder = self._options.tmp / f"compiler-{self._next_id + 1}" if "compiler" in needs else None
        try:
            if shared_bytes:
                shared = (shared_memory(shared_bytes),)
            if folder is not None:
                folder.mkdir(mode=0o700)
                if uid is not None:
                    os.chown(folder, uid, uid)
            pid = os.fork()
        except OSError as error:
            for fd in shared:
                os.close(fd)
            if uid is not None and self._options.uid_base is not None:
                self._free.append(uid - self._options.uid_base)
            if folder is not None:
                self._remove(folder, uid)
            ours.close()
            theirs.close()
            shares = f", with {shared_bytes} bytes of shared memory" if shared_bytes else ""
            self._reply(phase, {"op": "refused", "message": f"no process could be started{shares} ({error.strerror})"})
            return
        if pid == 0:
            self._in_child(lambda: self._run_candidate(uid, limits, needs, theirs.fileno(), shared, files, folder))
        theirs.close()
        self._next_id += 1
        candidate = Candidate(pid, uid, limits["cpu_seconds"], phase.tally, needs, folder)
        phase.candidates[self._next_id] = candidate
        self._reaper.add(candidate)
        self._reply(phase, {"op": "opened", "id": self._next_id}, (ours.fileno(), *shared))
        ours.close()
        for fd in shared:
            os.close(fd)

    def _run_candidate(
        self,
        uid: int | None,
        limits: dict[str, int],
        needs: frozenset[str],
        sock_fd: int,
        shared: Sequence[int],
        files: Mapping[str, int],
        folder: Path | None,
    ) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        sock_fd, *others = keep_only(sock_fd, *shared, *files.values())
        given: dict[str, Any] = {"shared_memory": mmap.mmap(others[0], 0)} if shared else {}
        given |= {name: f"/proc/self/fd/{fd}" for name, fd in zip(files, others[len(shared) :], strict=True)}
        os.setsid()
        Path("/proc/self/oom_score_adj").write_text("1000")
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_NOFILE, 1024 if "gpu" in needs else 64)
        limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
        with contextlib.suppress(ValueError):
            # gVisor does not take it, whoever asks; the filter refuses the calls as well.
            limit(resource.RLIMIT_MSGQUEUE, 0)
        cpu = limits["cpu_seconds"]
        # The soft limit says why (SIGXCPU); at the hard one the kernel kills without a word.
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        if "gpu" not in needs:  # its driver maps all memory of the machine, and more
            limit(resource.RLIMIT_AS, address_space() + limits["memory_bytes"])
        if uid is not None:
            limit(resource.RLIMIT_NPROC, limits["processes"])
            become(uid)
        os.chdir(folder or "/")
        os.environ.clear()
        self._close("loading", needs)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - lives as long as the process
        candidate_runner.run(
            socket.socket(fileno=sock_fd),
            lambda: self._close("closed", needs),
            self._mapped,
            files=bool({"files", "compiler"} & needs),
            given=given,
        )

    def _close(self, stage: str, needs: frozenset[str]) -> None:
        if self._filter.supported and (taken := self._filter.stage(stage, needs)):
            self._filter.install(taken, needs)

    def _close_candidate(self, phase: _Phase, number: object, *, hung_up: bool = False) -> dict[str, Any]:
        candidate = phase.candidates.pop(number, None) if type(number) is int else None
        if candidate is None:
            return {"code": None, "signal": None, "swept": True}
        ended, swept = self._reaper.end(candidate, hung_up=hung_up)
        if candidate.folder is not None:
            self._remove(candidate.folder, candidate.uid)
        if swept and candidate.uid is not None and self._options.uid_base is not None:
            # A uid that could not be swept is never used again.
            self._free.append(candidate.uid - self._options.uid_base)
        return ended

    def _in_child(self, body: Callable[[], None]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL if number != signal.SIGXFSZ else signal.SIG_IGN)
            body()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def shared_memory(size: int) -> int:
    """A descriptor of memory that nobody can cut short: who reads behind the end of a mapping is killed.

    Raises:
        OSError: there is not so much, or it is more than a file of the sandbox may have.
    """
    fd = os.memfd_create("shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
