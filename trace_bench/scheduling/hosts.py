"""One host as the scheduler sees it: what runs there, and what is reserved for jobs that wait."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from trace_bench.config.models import SandboxConfig
from trace_bench.planning.requirements import MemoryPool
from trace_bench.sandbox.base import Host
from trace_bench.sandbox.leases import Leases
from trace_bench.scheduling.starting import StartGate

PATIENCE = 120.0
"""Seconds that an engine may be unreachable. A restart takes a few; an upgrade about a minute."""
SHORTEST_REST, LONGEST_REST = 1.0, 60.0
"""Bounds of the seconds for which a host is not queried that did not report what its sandboxes hold. Within them: ten
times as long as the query took, since all jobs wait for it."""


@dataclass
class Reservation:
    """What one pass over the queue reserves on a host for the jobs that wait for it."""

    jobs: int = 0
    memory: int = 0
    gpus: bool = False
    cores: bool = False
    whole: bool = False
    waiting: frozenset[str] = frozenset()
    """Those of the jobs that wait for resources which other controllers may hold."""

    def add(self, memory: int, sandbox: SandboxConfig) -> None:
        self.jobs += 1
        self.memory += memory
        self.gpus = self.gpus or sandbox.gpus > 0
        self.cores = self.cores or sandbox.pinned
        self.whole = self.whole or sandbox.exclusive

    def allows(self, sandbox: SandboxConfig) -> bool:
        """Whether `sandbox` needs nothing that is reserved; slots and memory aside."""
        if self.whole or (sandbox.exclusive and self.jobs):
            return False
        return not ((self.gpus and sandbox.gpus) or (self.cores and sandbox.pinned))


@dataclass
class HostState:
    """One host, and what runs on it.

    Attributes:
        waiting: jobs that the wait mark in the host's leases is for.
        silent_since: when the host first did not report what its sandboxes hold.
        withdrawn: GPUs that no job gets any more.
        query_again_at: until then a host that did not report is left alone, while other hosts have room.
    """

    host: Host
    memory: MemoryPool
    gate: StartGate
    leases: Leases
    jobs: int = 0
    down: bool = False
    waiting: frozenset[str] = frozenset()
    silent_since: float | None = None
    withdrawn: tuple[str, ...] = ()
    query_again_at: float = -float("inf")

    @property
    def is_given_up(self) -> bool:
        """Whether the host has not reported for longer than `PATIENCE`."""
        return self.silent_since is not None and time.monotonic() - self.silent_since > PATIENCE

    @property
    def is_left_alone(self) -> bool:
        return time.monotonic() < self.query_again_at

    def query_failed(self, started: float, *, for_good: bool = False) -> None:
        """A query that `started` then got no answer: the longer that took, the longer the host is left alone.

        Args:
            for_good: the host refuses the query, and would refuse it again.
        """
        now = time.monotonic()
        self.silent_since = started if self.silent_since is None else self.silent_since
        if for_good:
            self.silent_since = -math.inf
        self.query_again_at = now + min(LONGEST_REST, max(SHORTEST_REST, 10 * (now - started)))

    def set_waiting(self, jobs: frozenset[str]) -> None:
        """Set the jobs that the wait mark is for; with the last of them the mark is removed."""
        if self.waiting and not jobs:
            self.leases.rest()
        self.waiting = jobs

    def is_open(self, reserved: Reservation) -> bool:
        """Whether any job might fit."""
        if self.down or reserved.whole:
            return False
        if self.host.slots is not None and self.jobs + reserved.jobs >= self.host.slots:
            return False
        return self.memory.fits(1, reserved.memory)

    def fits(self, memory: int, sandbox: SandboxConfig, reserved: Reservation) -> bool:
        """Whether there is a slot and memory for one more job; leases aside."""
        return self.is_open(reserved) and self.memory.fits(memory, reserved.memory) and reserved.allows(sandbox)

    def load(self) -> float:
        """How full the host is: the scarcest of slots, memory and cores; the number of jobs if it reports none."""
        shares = [self.memory.used_share]
        if self.host.slots:
            shares.append(self.jobs / self.host.slots)
        elif self.host.cpus:
            shares.append(self.jobs / self.host.cpus)
        return max(shares) if max(shares) > 0 else float(self.jobs)
