"""The children of the spawner: candidates, phases, and the orphans of phases. Reaps them all, and ends candidates."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_REAPED_AT_ONCE = 256
_STOPPED_WITHIN = 2.0


@dataclass
class Tally:
    """`CandidateTally` of the contract: the candidates of one phase."""

    opened: int = 0
    unswept: int = 0
    over_cpu: int = 0
    cpu_seconds: float = 0.0
    needs: set[str] = field(default_factory=set)

    def report(self) -> dict[str, Any]:
        """As the result has it."""
        return {
            "opened": self.opened,
            "unswept": self.unswept,
            "over_cpu": self.over_cpu,
            "cpu_seconds": round(self.cpu_seconds, 3),
            "needs": sorted(self.needs),
        }


@dataclass(eq=False)
class Candidate:
    """A candidate's process.

    Attributes:
        cpu_seconds: its limit.
        needs: what its task declares that it needs (`seccomp.NEEDS`). Without ``processes`` or ``compiler`` it has no
            other process.
        folder: its own, if it is a compiler.
        status: as ``wait`` gives it, once it has ended.
        spent: CPU seconds that it had used by then.
    """

    pid: int
    uid: int | None
    cpu_seconds: int
    tally: Tally
    needs: frozenset[str] = frozenset()
    folder: Path | None = None
    status: int | None = None
    spent: float = 0.0


class Reaper:
    """Waits for children.

    Args:
        sweep: ends every process of a candidate that may have several, by its pid and uid; False if some are left.
        on_other: called with pid and status of a child that is no candidate.
    """

    def __init__(self, sweep: Callable[[int, int | None], bool], on_other: Callable[[int, int], None]) -> None:
        self._sweep = sweep
        self._on_other = on_other
        self._by_pid: dict[int, Candidate] = {}

    def add(self, candidate: Candidate) -> None:
        """A candidate has been forked."""
        candidate.tally.opened += 1
        candidate.tally.needs |= candidate.needs
        self._by_pid[candidate.pid] = candidate

    def collect(self) -> bool:
        """Reap what has ended; False if there may be more: a flood of orphans must not hold up the spawner's loop."""
        for _ in range(_REAPED_AT_ONCE):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not pid:
                return True
            candidate = self._by_pid.get(pid)
            if candidate is None:
                self._on_other(pid, status)
            else:
                _ended(candidate, status, usage.ru_utime + usage.ru_stime)
        return False

    def end(self, candidate: Candidate, *, hung_up: bool) -> tuple[dict[str, Any], bool]:
        """Kill the candidate: how it had ended, and whether nothing of it is left.

        Args:
            hung_up: it closed its socket, so it is about to end by itself; how, is worth knowing.
        """
        patience = 50 if hung_up else 0
        while not _wait(candidate, os.WNOHANG) and patience:
            time.sleep(0.002)
            patience -= 1
        by_itself = candidate.status is not None
        if not by_itself:
            os.kill(candidate.pid, signal.SIGKILL)
            _wait(candidate, 0)
        assert candidate.status is not None
        del self._by_pid[candidate.pid]
        exited = exit_of(candidate.status) if by_itself else {"code": None, "signal": None}
        # A process that ignores SIGXCPU is killed a second later.
        killed = exited["signal"] == signal.SIGKILL and candidate.spent > candidate.cpu_seconds
        over_cpu = killed or exited["signal"] == signal.SIGXCPU
        swept = not {"processes", "compiler"} & candidate.needs or self._sweep(candidate.pid, candidate.uid)
        candidate.tally.over_cpu += over_cpu
        candidate.tally.unswept += not swept
        spent = {"cpu_seconds": candidate.spent, "over_cpu": over_cpu}
        return {**exited, **spent, "swept": swept}, swept

    def hold(self, candidate: Candidate, *, held: bool) -> bool | None:
        """Stop all threads of the candidate's process, or let them go on: False if it does not stop, None if it ended.

        The kernel says that a process is stopped once all its threads are: from then on it does nothing. Until then a
        thread may undo the stop, by a SIGCONT to its own process.
        """
        if candidate.status is not None:
            return None
        if not held:
            os.kill(candidate.pid, signal.SIGCONT)
            return True
        end = time.monotonic() + _STOPPED_WITHIN
        while time.monotonic() < end:
            os.kill(candidate.pid, signal.SIGSTOP)
            for _ in range(50):
                found = os.waitid(os.P_PID, candidate.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG)
                if found is not None:
                    return True if found.si_code == os.CLD_STOPPED else None
                time.sleep(1e-5)
        return False

    def cpu_seconds(self, candidate: Candidate) -> float | None:
        """CPU seconds of all threads of the candidate's process so far, by the kernel's clock of that process; None
        where the kernel has none.

        The process cannot change it. A process that it forked counts only once it is waited for, and is not in the
        clock of a live process; only a candidate that needs ``processes`` or ``compiler`` can fork.
        """
        if candidate.status is not None:
            return candidate.spent
        try:
            return time.clock_gettime(_clock_of(candidate.pid))
        except OSError:
            return None

    def kill(self, candidates: Iterable[Candidate]) -> None:
        """Kill their processes, without waiting."""
        for candidate in candidates:
            if candidate.status is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(candidate.pid, signal.SIGKILL)


def _clock_of(pid: int) -> int:
    """The clock of a process's CPU time, as clock_getcpuclockid(3) gives it on Linux."""
    return ~pid << 3 | 2


def _wait(candidate: Candidate, flags: int) -> bool:
    """Whether its process has ended; waits for it unless `flags` say otherwise."""
    if candidate.status is None:
        pid, status, usage = os.wait4(candidate.pid, flags)
        if pid:
            _ended(candidate, status, usage.ru_utime + usage.ru_stime)
    return candidate.status is not None


def _ended(candidate: Candidate, status: int, cpu_seconds: float) -> None:
    candidate.status = status
    candidate.spent = cpu_seconds
    candidate.tally.cpu_seconds += cpu_seconds


def exit_of(status: int) -> dict[str, int | None]:
    """``{"code", "signal"}`` of a wait status."""
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None}
