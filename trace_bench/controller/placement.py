"""Which job goes next, and where: hosts with room, what their jobs hold for themselves, limits of suites.

Jobs go in the order they are given in. One that only its suite's limit holds back lets others pass. One that waits for
room, GPUs, cores or a quiet host keeps the host that it waits for from all behind it: it would never get its turn.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.controller.outage import PATIENCE
from trace_bench.controller.schedule import Room, StartGate
from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Host, Sandbox
from trace_bench.sandbox.labels import EXCLUSIVE
from trace_bench.sandbox.leases import Lease, Leases, Taken, cores_in, devices_in

if TYPE_CHECKING:
    from trace_bench.config.models import SandboxConfig
    from trace_bench.controller.plan import PlannedJob


@dataclass
class Place:
    """Where one job runs, until `Placement.give_back`."""

    host: Host
    lease: Lease
    gate: StartGate
    memory: int
    suite: str


class Waiting:
    """Jobs that wait for their turn, in order; a hundred thousand of them are cheap to look through."""

    def __init__(self, jobs: Iterable[PlannedJob]) -> None:
        self._alike: dict[tuple[str, int], deque[tuple[int, PlannedJob]]] = {}
        for rank, job in enumerate(jobs):
            self._alike.setdefault((job.job.suite, id(job.job.sandbox)), deque()).append((rank, job))

    def __len__(self) -> int:
        return sum(map(len, self._alike.values()))

    def __iter__(self) -> Iterator[PlannedJob]:
        return (job for _, job in sorted((pair for jobs in self._alike.values() for pair in jobs), key=lambda p: p[0]))

    def heads(self) -> list[PlannedJob]:
        """The first job of each kind that asks for the same, in order."""
        return [job for _, job in sorted((jobs[0] for jobs in self._alike.values()), key=lambda pair: pair[0])]

    def remove(self, job: PlannedJob) -> None:
        """Take out one of `heads`."""
        key = (job.job.suite, id(job.job.sandbox))
        self._alike[key].popleft()
        if not self._alike[key]:
            del self._alike[key]


@dataclass
class _Here:
    """One host, and what runs on it."""

    host: Host
    room: Room
    gate: StartGate
    leases: Leases
    jobs: int = 0
    down: bool = False
    waiter: str = ""
    """The job that has left a mark there."""
    silent_since: float | None = None
    """When the host first did not say what its sandboxes hold."""

    @property
    def has_been_silent(self) -> bool:
        """For longer than anybody waits."""
        return self.silent_since is not None and time.monotonic() - self.silent_since > PATIENCE


class Placement:
    """Finds places for jobs. All methods may be called from any thread.

    Args:
        hosts: of the backend.
        suites: jobs of a suite at a time.
        starting: sandboxes of a host that start at once; None is the host's own.
        taken: says what sandboxes of a host hold, by its name.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        suites: Mapping[str, int] | None = None,
        starting: int | None = None,
        taken: Callable[[str], Taken] = lambda _: Taken(),
        directory: Path | None = None,
    ) -> None:
        self._here = {
            host.name: _Here(
                host,
                Room(host.memory_bytes),
                StartGate(starting or host.starting or int(host.cpus or 1)),
                Leases(host.scope, directory),
            )
            for host in hosts
        }
        self._limits = dict(suites or {})
        self._running: Counter[str] = Counter()
        self._taken = taken
        self._lock = threading.Lock()

    @property
    def alone(self) -> bool:
        """Whether there is but one host."""
        return len(self._here) == 1

    @property
    def waits(self) -> bool:
        """Whether a job waits for what other controllers may have."""
        return any(here.waiter for here in self._here.values())

    def next(self, waiting: Waiting) -> tuple[PlannedJob, Place] | None:
        """The first job of `waiting` that has a place now, taken out of it; None if none has."""
        kept: set[str] = set()
        for job in waiting.heads():
            place = self.find(job, kept)
            if place is not None:
                waiting.remove(job)
                return job, place
        self._nobody_waits_but_for(kept)
        return None

    def find(self, job: PlannedJob, kept: set[str] | None = None) -> Place | None:
        """A place for `job`, taken; None if there is none now.

        Args:
            kept: hosts that others wait for; the one that `job` waits for is added.
        """
        kept = set() if kept is None else kept
        suite, sandbox = job.job.suite, job.job.sandbox
        with self._lock:
            if self._running[suite] >= self._limits.get(suite, self._running[suite] + 1):
                return None
            fitting = [here for here in self._here.values() if could_run(here.host, sandbox)]
            if sandbox.gpus:  # where nobody can tell which there are, there may be none
                fitting = [here for here in fitting if here.host.gpus] or fitting
            for here in sorted(fitting, key=lambda here: here.jobs):
                if here.down or here.host.name in kept:
                    continue
                place = self._take(here, job)
                if place is not None:
                    return place
            free = [here for here in fitting if not here.down and here.host.name not in kept]
            if free:
                here = min(free, key=lambda here: here.jobs)
                kept.add(here.host.name)
                self._mark(here, job)
            return None

    def adopt(self, job: PlannedJob, sandbox: Sandbox) -> Place:
        """The place of a job whose `sandbox` is there already, with what that holds."""
        found = sandbox.labels
        with self._lock:
            here = self._here.get(sandbox.host) or next(iter(self._here.values()))
            lease = here.leases.adopt(devices_in(found), cores_in(found), exclusive=EXCLUSIVE in found)
            return self._put(here, job, lease)

    def rest(self) -> None:
        """Nothing is placed any more; whoever else waits for the hosts need not wait for this run's next jobs."""
        self._nobody_waits_but_for(frozenset())

    def give_back(self, place: Place) -> None:
        with self._lock:
            place.lease.release()
            here = self._here[place.host.name]
            here.jobs -= 1
            here.room.give_back(place.memory)
            self._running[place.suite] -= 1

    def lost(self, host: str) -> None:
        """`host` does not answer; nothing is placed there until it is `back`."""
        with self._lock:
            self._here[host].down = True

    def back(self, host: str) -> None:
        with self._lock:
            self._here[host].down = False

    def _take(self, here: _Here, job: PlannedJob) -> Place | None:
        sandbox, host = job.job.sandbox, here.host
        if self._is_full(here, job):
            return None
        try:
            lease = here.leases.take(
                devices=host.gpus or (),
                gpus=sandbox.gpus if host.gpus else 0,
                cores=int(sandbox.cpus) if sandbox.pinned else 0,
                of_cores=range(int(host.cpus or 0)),
                exclusive=sandbox.exclusive,
                taken=lambda: self._taken(host.name),
            )
        except SandboxError:
            # It may come back, as for jobs that are on it, and others may answer.
            here.silent_since = here.silent_since or time.monotonic()
            if all(here.down or here.has_been_silent for here in self._here.values()):
                raise
            return None
        here.silent_since = None
        if lease is None:
            return None
        if here.waiter == job.job_id:
            here.waiter = ""
            here.leases.rest()
        return self._put(here, job, lease)

    @staticmethod
    def _is_full(here: _Here, job: PlannedJob) -> bool:
        slots = here.host.slots
        return (slots is not None and here.jobs >= slots) or not here.room.fits(job.memory)

    def _mark(self, here: _Here, job: PlannedJob) -> None:
        """`job` waits for `here`: who comes later, from wherever, is not to overtake it."""
        sandbox = job.job.sandbox
        full = self._is_full(here, job)  # of this run's own jobs, which nobody else can overtake
        if not full and (sandbox.exclusive or sandbox.pinned or (sandbox.gpus and here.host.gpus)):
            here.leases.wait(exclusive=sandbox.exclusive)
            here.waiter = job.job_id

    def _nobody_waits_but_for(self, kept: Collection[str]) -> None:
        with self._lock:
            for name, here in self._here.items():
                if here.waiter and name not in kept:
                    here.waiter = ""
                    here.leases.rest()

    def _put(self, here: _Here, job: PlannedJob, lease: Lease) -> Place:
        here.jobs += 1
        here.room.take(job.memory)
        self._running[job.job.suite] += 1
        return Place(here.host, lease, here.gate, job.memory, job.job.suite)


def could_run(host: Host, sandbox: SandboxConfig) -> bool:
    """Whether `host`, with nothing else on it, is what `sandbox` asks for."""
    return why_not(host, sandbox) is None


def why_not(host: Host, sandbox: SandboxConfig) -> str | None:
    """Why `host` can never run `sandbox`; None if it can. One with too little memory can: it is tried alone."""
    if lacking := sorted(set(sandbox.labels) - host.labels):
        return f"has no label {lacking[0]!r}"
    if host.gpus is not None and sandbox.gpus > len(host.gpus):
        return f"has {len(host.gpus) or 'no'} {'GPU' if len(host.gpus) == 1 else 'GPUs'}, not {sandbox.gpus}"
    if (sandbox.pinned or sandbox.exclusive) and host.cpus is None:
        return f"is no machine that a job could have {'cores of' if sandbox.pinned else 'to itself'}"
    if sandbox.pinned and sandbox.cpus > (host.cpus or 0):
        return f"has {host.cpus:g} cores, of which {sandbox.cpus:g} cannot be pinned"
    return None
