"""The one process that forks: phases and candidates, under their own uids, from memory that holds nothing.

A forked child sees all that its parent had in memory. The supervisor reads the job and later the held-out seed, so a
candidate must not be forked from it. The spawner is forked off before the supervisor reads its first byte, and is sent
nothing but uids and limits. It keeps SETUID, SETGID, KILL and CHOWN, and imports only what the image's recipe names
(NumPy, say, so that it is paid once). It does five things: start a phase, open a candidate, read its CPU time, close
a candidate, and report which phase exited and what candidates it had.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.worker import sweep
from trace_bench.worker.candidate_pool import CandidatePool
from trace_bench.worker.confine import become, fork_child, keep_only, limit, redirect_to_null
from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.exit_codes import SPAWNER_ENDED
from trace_bench.worker.memory_guard import MemoryGuard
from trace_bench.worker.options import Options
from trace_bench.worker.reaper import Candidate, Reaper, Tally, exit_of
from trace_bench.worker.seccomp import Filter


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
            redirect_to_null(0, 1)
            Spawner(theirs, options).run()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(SPAWNER_ENDED)
    theirs.close()
    return ours


class Spawner:
    """Serves the supervisor and the phases until the supervisor hangs up."""

    def __init__(self, sock: socket.socket, options: Options) -> None:
        self._sock = sock
        self._options = options
        self._phases: dict[str, _Phase] = {}
        self._wake: int | None = None
        self._filter = Filter()
        self._guard = MemoryGuard()
        self._sweeper = sweep.Sweeper(options, lambda: self._reaper.collect())
        self._reaper = Reaper(self._sweeper.end_candidate, self._on_other_exit)
        self._pool = CandidatePool(options, self._reaper, self._sweeper, self._guard, self._filter)
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve requests, reap children and guard memory until the supervisor hangs up."""
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
        self._pool.preload(name.strip() for name in os.environ.get("TRACE_BENCH_PRELOAD", "").split(","))
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
        if self._options.uid_base is None or not self._phases:
            return
        candidates = [c.uid for phase in self._phases.values() for c in phase.candidates.values() if c.uid is not None]
        phases = [uid for name in self._phases if (uid := self._options.uid_of(name)) is not None]
        victim = self._guard.victim(candidates, phases, time.monotonic())
        if victim is not None:
            self._sweeper.end_uids([victim])

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
            self._sweeper.empty(Path(message["path"]), self._options.uid_of(message["name"]))
        return None

    def _start_phase(self, name: str, fds: list[int]) -> None:
        ctl, out = fds
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        uid = self._options.uid_of(name)
        home = self._options.tmp / name
        home.mkdir(mode=0o700, exist_ok=True)
        if uid is not None:
            os.chown(home, uid, uid)
        pid = fork_child(lambda: self._run_phase(name, uid, home, ctl, out, theirs.fileno()))
        for fd in fds:
            os.close(fd)
        theirs.close()
        # A phase that does not read its answers must not block the spawner, which has to be able to kill it.
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
        for candidate in phase.candidates.values():
            self._pool.close(candidate, hung_up=False)
        phase.candidates.clear()
        others = {candidate.uid for other in self._phases.values() for candidate in other.candidates.values()}
        if not self._sweeper.end_phase(phase.name, phase.pid, others) and self._options.uid_base is not None:
            # What trained must not be there while states are scored: better no result than that one.
            raise RuntimeError(f"processes of the {phase.name} phase cannot be ended")
        with contextlib.suppress(KeyError):
            self._selector.unregister(phase.sock)
        phase.sock.close()
        del self._phases[phase.name]
        self._sweeper.remove(self._options.tmp / phase.name, self._options.uid_of(phase.name))
        report = {"op": "exit", "name": phase.name, **exit_of(status), "candidates": phase.tally.report()}
        send_datagram(self._sock, report)

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
        reply, given = self._pool.answer(message, fds, phase.candidates, phase.tally)
        if reply is not None:
            self._reply(phase, reply, given)
        for fd in (*fds, *given):
            os.close(fd)

    def _reply(self, phase: _Phase, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        with contextlib.suppress(OSError):
            send_datagram(phase.sock, message, fds)
