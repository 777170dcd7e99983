"""The defence as it once was: a list of denied calls, and a sweep that looks before it kills. What it cannot stop shows
that an attack works.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import struct
import time
from collections.abc import Callable, Collection

from trace_bench.worker import imports, seccomp, sweep
from trace_bench.worker.reaper import Candidate, Reaper

_DENIED = (
    41, 42, 43, 49, 50, 53, 288, 101, 310, 311, 312, 434, 438, 248, 249, 250, 272, 308, 165, 166, 155, 161, 321, 298,
    323, 29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241, 425, 319, 135, 322, 300, 304, 175, 246, 59,
)  # fmt: skip
"""x86_64: sockets, tracing, keys, namespaces, mounts, IPC, io_uring, execve."""
_ALLOW, _REFUSE = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | errno.EPERM)


def _program(machine: str, stage: str, needs: Collection[str] = (), pid: int = 0) -> bytes:
    body = [(0x20, 0, 0, 0)]
    if stage == "loading":  # it took all there was to take at once
        body += [(0x15, len(_DENIED) - at, 0, number) for at, number in enumerate(_DENIED)]
    return b"".join(struct.pack("<HBBI", *item) for item in (*body, _ALLOW, _REFUSE))


def _sweep_uids(uids: Collection[int], sender: int, reap: Callable[[], object], attempts: int = 50) -> bool:
    for attempt in range(attempts):
        if not sweep.living(uids):
            return True
        if (pid := os.fork()) == 0:
            for uid in uids:
                with contextlib.suppress(OSError):
                    os.seteuid(0)
                    sweep.act_as(uid, sender)
                    os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(pid, 0)
        if attempt:
            time.sleep(0.002 * attempt)
    return not sweep.living(uids)


def take_the_old_filter() -> None:
    """Candidates may do what they could, and every one of them is swept."""
    seccomp.program = _program
    imports.close = lambda failures: None
    end = Reaper.end

    def end_swept(self: Reaper, candidate: Candidate, *, hung_up: bool) -> object:
        candidate.needs |= {"processes"}
        return end(self, candidate, hung_up=hung_up)

    Reaper.end = end_swept  # type: ignore[method-assign, assignment]


def take_the_old_sweep() -> None:
    """A uid is empty once a look finds nothing."""
    sweep.sweep_uids = _sweep_uids
