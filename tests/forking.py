"""Real candidate processes for tests without a sandbox."""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from trace_bench.worker import candidate_runner
from trace_bench.worker.candidate_pool import shared_memory
from trace_bench.worker.candidates import NO_FILES, file_of
from trace_bench.worker.problem import Limits
from trace_bench.worker.reaper import Candidate, Reaper, Tally
from trace_bench.worker.seccomp import Filter

FILTER = Filter()
REAPER = Reaper(lambda *_: True, lambda *_: None)


class ForkingSpawner:
    """Serves `CandidatePrograms` in place of the sandbox's spawner: forked from here, with its filters."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._folders: dict[int, str | None] = {}

    def open(
        self, limits: Limits, modules: list[str], files: Mapping[str, bytes | int] = NO_FILES
    ) -> tuple[int, socket.socket, mmap.mmap | None]:
        ours, theirs = socket.socketpair()
        shared = None
        if limits.shared_bytes:
            fd = shared_memory(limits.shared_bytes)
            shared = mmap.mmap(fd, 0)
            os.close(fd)
        folder = tempfile.mkdtemp() if "compiler" in limits.needs else None
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                given: dict[str, Any] = {"shared_memory": shared} if shared else {}
                for name, content in files.items():
                    given[name] = f"/proc/self/fd/{file_of(content) if isinstance(content, bytes) else content}"
                if folder is not None:
                    os.setsid()  # so that all that it starts ends with it
                    os.chdir(folder)
                self._close("loading", limits)
                candidate_runner.run(
                    theirs,
                    lambda: self._close("closed", limits),
                    set(),
                    files=bool({"files", "compiler"} & limits.needs),
                    given=given,
                )
            finally:
                os._exit(0)
        theirs.close()
        self.pids.append(pid)
        self._folders[pid] = folder
        return pid, ours, shared

    def _close(self, stage: str, limits: Limits) -> None:
        if taken := FILTER.stage(stage, limits.needs):
            FILTER.install(taken, limits.needs)

    def hold(self, number: int, *, held: bool) -> bool | None:
        return REAPER.hold(Candidate(number, None, 1, Tally()), held=held)

    def cpu_seconds(self, number: int) -> float | None:
        return REAPER.cpu_seconds(Candidate(number, None, 1, Tally()))

    def close(self, number: int, *, hung_up: bool = False) -> dict[str, Any]:
        """`hung_up`: the candidate closed its end, so it is dying by itself, and how is worth knowing for a second."""
        end = time.monotonic() + hung_up
        while time.monotonic() < end and not os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(0.002)
        folder = self._folders.pop(number)
        if folder is not None:
            os.killpg(number, signal.SIGKILL)
        os.kill(number, signal.SIGKILL)
        _, status, usage = os.wait4(number, 0)
        self.pids.remove(number)
        if folder is not None:
            shutil.rmtree(folder)
        killed = os.WIFSIGNALED(status)
        return {
            "code": None if killed else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if killed else None,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
        }
