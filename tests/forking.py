"""Real candidate processes for tests without a sandbox."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import time
from typing import Any

from trace_bench.worker import candidate_runner
from trace_bench.worker.candidates import file_of
from trace_bench.worker.problem import Limits
from trace_bench.worker.reaper import Candidate, Reaper, Tally
from trace_bench.worker.seccomp import Filter
from trace_bench.worker.spawner import shared_memory

FILTER = Filter()
REAPER = Reaper(lambda _: True, lambda *_: None)


class ForkingSpawner:
    """Serves `CandidatePrograms` in place of the sandbox's spawner: forked from here, with its filters."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def open(
        self, limits: Limits, modules: list[str], library: bytes = b""
    ) -> tuple[int, socket.socket, mmap.mmap | None]:
        ours, theirs = socket.socketpair()
        shared = None
        if limits.shared_bytes:
            fd = shared_memory(limits.shared_bytes)
            shared = mmap.mmap(fd, 0)
            os.close(fd)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                given = file_of(library) if library else None
                self._close("loading", limits)
                candidate_runner.run(
                    theirs, lambda: self._close("closed", limits), set(), files="files" in limits.needs, shared=shared,
                    library=f"/proc/self/fd/{given}" if given else None,
                )  # fmt: skip
            finally:
                os._exit(0)
        theirs.close()
        self.pids.append(pid)
        return pid, ours, shared

    def _close(self, stage: str, limits: Limits) -> None:
        if "compiler" not in limits.needs:
            FILTER.install(stage, limits.needs)

    def hold(self, number: int, *, held: bool) -> bool | None:
        return REAPER.hold(Candidate(number, None, 1, Tally()), held=held)

    def close(self, number: int, *, hung_up: bool = False) -> dict[str, Any]:
        """`hung_up`: the candidate closed its end, so it is dying by itself, and how is worth knowing for a second."""
        end = time.monotonic() + hung_up
        while time.monotonic() < end and not os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(0.002)
        os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        self.pids.remove(number)
        killed = os.WIFSIGNALED(status)
        return {
            "code": None if killed else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if killed else None,
        }
