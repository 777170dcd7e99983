"""Candidates as families of processes: whose they are, what CPU time they use together, and their end.

A limit of the kernel holds for one process, and a candidate may fork. What counts here is everything under its uid: the
processes that run, the children that those have waited for, and the orphans, which the spawner inherits and reaps.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from trace_bench.worker import sweep

LOOK_INTERVAL = 0.25
"""Seconds between two looks at the CPU time of candidates."""
_YOUNG = 0.5
"""Candidates open for less than this many seconds are not looked at: most never are."""
_REAPED_AT_ONCE = 256


@dataclass
class Tally:
    """`CandidateTally` of the contract: the candidates of one phase."""

    opened: int = 0
    left_processes: int = 0
    unswept: int = 0
    over_cpu: int = 0
    cpu_seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        """As the result has it."""
        return {**asdict(self), "cpu_seconds": round(self.cpu_seconds, 3)}


@dataclass(eq=False)
class Candidate:
    """A candidate's first process, and what is known of its family.

    Attributes:
        status: of its first process, as ``wait`` gives it; None while nobody has waited for it.
        spent: CPU seconds of what the spawner has reaped of the family.
    """

    pid: int
    uid: int | None
    cpu_seconds: int
    tally: Tally
    opened: float = field(default_factory=time.monotonic)
    status: int | None = None
    spent: float = 0.0
    over_cpu: bool = False

    def living(self) -> dict[int, float]:
        """Pids of its live processes, each with its CPU seconds."""
        return sweep.cpu_of_session(self.pid) if self.uid is None else sweep.cpu_of(self.uid)


class Families:
    """The candidates of all phases.

    Args:
        swept: ends every process of a candidate; False if some are left.
        on_other: told of a reaped child that belongs to no candidate: its pid and status.
    """

    def __init__(self, swept: Callable[[Candidate], bool], on_other: Callable[[int, int], None]) -> None:
        self._swept = swept
        self._on_other = on_other
        self._by_pid: dict[int, Candidate] = {}
        self._looked = 0.0

    @property
    def patience(self) -> float | None:
        """Seconds until the next look at CPU time is due; None while there is nothing to look at."""
        return LOOK_INTERVAL if self._by_pid else None

    def add(self, candidate: Candidate) -> None:
        """A candidate has been forked."""
        candidate.tally.opened += 1
        self._by_pid[candidate.pid] = candidate

    def collect(self) -> bool:
        """Reap what has ended; False if there may be more: a bomb of orphans must not hold up who asks for its end."""
        for _ in range(_REAPED_AT_ONCE):
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if found is None:
                return True
            self._reap(found.si_pid, found.si_uid)
        return False

    def _reap(self, pid: int, uid: int) -> None:
        _, status, usage = os.wait4(pid, 0)
        candidate = self._by_pid.get(pid)
        if candidate is not None:
            candidate.status = status
        else:
            candidate = next((c for c in self._by_pid.values() if c.uid is not None and c.uid == uid), None)
        if candidate is not None:
            candidate.spent += usage.ru_utime + usage.ru_stime
        else:
            self._on_other(pid, status)

    def look(self) -> None:
        """End the families that have used up their CPU time. Costs nothing if it was done a moment ago."""
        now = time.monotonic()
        if now - self._looked < LOOK_INTERVAL:
            return
        self._looked = now
        for candidate in list(self._by_pid.values()):
            if candidate.over_cpu or now - candidate.opened < _YOUNG:
                continue
            if candidate.spent + sum(candidate.living().values()) > candidate.cpu_seconds:
                candidate.over_cpu = True
                if candidate.status is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(candidate.pid, signal.SIGKILL)
                self._swept(candidate)

    def end(self, candidate: Candidate, *, hung_up: bool) -> tuple[dict[str, Any], bool]:
        """Kill the candidate and its family: how its first process had ended, and whether nothing is left.

        Args:
            hung_up: it closed its socket, so it is about to end by itself; how, is worth knowing.
        """
        left = [] if candidate.uid is None else [pid for pid in candidate.living() if pid != candidate.pid]
        patience = 50 if hung_up else 0
        while not _ended(candidate, os.WNOHANG) and patience:
            time.sleep(0.002)
            patience -= 1
        by_itself = candidate.status is not None
        if not by_itself:
            os.kill(candidate.pid, signal.SIGKILL)
            _ended(candidate, 0)
        assert candidate.status is not None
        exited = exit_of(candidate.status) if by_itself else {"code": None, "signal": None}
        if candidate.uid is None:
            # Without uids a look goes through all processes of a host: one has to do.
            left = list(candidate.living())
        swept = (candidate.uid is None and not left) or self._swept(candidate)
        self.collect()
        del self._by_pid[candidate.pid]
        candidate.over_cpu |= exited["signal"] == signal.SIGXCPU
        tally = candidate.tally
        tally.left_processes += len(left)
        tally.unswept += not swept
        tally.over_cpu += candidate.over_cpu
        tally.cpu_seconds += candidate.spent
        return {**exited, "over_cpu": candidate.over_cpu, "swept": swept}, swept

    def kill(self, candidates: Iterable[Candidate]) -> None:
        """Kill their first processes, without waiting."""
        for candidate in candidates:
            if candidate.status is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(candidate.pid, signal.SIGKILL)


def _ended(candidate: Candidate, flags: int) -> bool:
    """Whether its first process has ended; waits for it unless `flags` say otherwise."""
    if candidate.status is None:
        pid, status, usage = os.wait4(candidate.pid, flags)
        if pid:
            candidate.status = status
            candidate.spent += usage.ru_utime + usage.ru_stime
    return candidate.status is not None


def exit_of(status: int) -> dict[str, int | None]:
    """``{"code", "signal"}`` of a wait status."""
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None}
