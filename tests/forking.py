"""Real candidate processes for tests without a sandbox.

They are forked from a small process, which is started once: to fork one of several hundred megabytes, as that of the
tests soon is, takes a tenth of a second.
"""

from __future__ import annotations

import atexit
import functools
import gc
import mmap
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_bench.worker.candidate_pool import CandidatePool
from trace_bench.worker.candidates import NO_FILES, SpawnerClient
from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.memory_guard import MemoryGuard
from trace_bench.worker.options import Options
from trace_bench.worker.problem import Limits
from trace_bench.worker.reaper import Candidate, Reaper, Tally
from trace_bench.worker.seccomp import Filter
from trace_bench.worker.sweep import Sweeper

_SERVE = "import sys; from tests.forking import serve; serve(int(sys.argv[1]), sys.argv[2])"


class ForkingSpawner:
    """A phase's end of a spawner, which knows the numbers of the candidates that it has open.

    Args:
        environment: more variables of the spawner, which has a process of its own for them.
    """

    def __init__(self, **environment: str) -> None:
        self.numbers: list[int] = []
        self._client = spawner(**environment)

    def open(
        self, limits: Limits, modules: list[str], files: Mapping[str, bytes | int] = NO_FILES
    ) -> tuple[int, socket.socket, mmap.mmap | None]:
        opened = self._client.open(limits, modules, files)
        self.numbers.append(opened[0])
        return opened

    def hold(self, number: int, *, held: bool) -> bool | None:
        return self._client.hold(number, held=held)

    def cpu_seconds(self, number: int) -> float | None:
        return self._client.cpu_seconds(number)

    def close(self, number: int, *, hung_up: bool = False) -> dict[str, Any]:
        self.numbers.remove(number)
        return self._client.close(number, hung_up=hung_up)


@functools.cache
def spawner(**environment: str) -> SpawnerClient:
    """The client of the spawner with these variables. A test that forks calls it before, for its children to share."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = tempfile.mkdtemp(prefix="spawner-")
    variables = os.environ | environment | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(theirs.fileno()), folder], pass_fds=[theirs.fileno()], env=variables
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return SpawnerClient(ours)


def serve(fd: int, folder: str) -> None:
    """Start and end candidates for the process at the other end of the socket `fd`, as a spawner does for a phase."""
    sock = socket.socket(fileno=fd)
    options = Options(None, Path(folder), 0)
    sweeper = Sweeper(options, lambda: None)
    reaper = Reaper(sweeper.end_candidate, lambda *_: None)
    pool = CandidatePool(options, reaper, sweeper, MemoryGuard(), Filter())
    pool.preload(["numpy"])
    gc.freeze()
    candidates: dict[int, Candidate] = {}
    while (received := receive_datagram(sock)) is not None:
        message, fds = received
        reply, given = pool.answer(message, fds, candidates, Tally())
        assert reply is not None
        send_datagram(sock, reply, given)
        for fd in (*fds, *given):
            os.close(fd)
    reaper.kill(candidates.values())
