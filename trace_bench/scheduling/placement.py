"""Which job goes next, and where: hosts with room, what their jobs hold for themselves, limits of suites.

Jobs go in the order they are given in. One that only its suite's limit holds back lets others pass. One that waits for
room, GPUs, cores or a quiet host has a host kept for it: as if it ran there already, so that whoever passes leaves it
what it waits for (backfilling with a reservation for each kind of job; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001).
So it gets its turn once those that run there now have ended, and what it has no use for does not stand idle.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Host, Sandbox
from trace_bench.sandbox.labels import EXCLUSIVE
from trace_bench.sandbox.leases import Lease, Leases, Taken, cores_in, devices_in
from trace_bench.sandbox.pace import Pace
from trace_bench.scheduling.outage import PATIENCE
from trace_bench.scheduling.schedule import Room
from trace_bench.scheduling.starting import StartGate

if TYPE_CHECKING:
    from trace_bench.config.models import SandboxConfig
    from trace_bench.planning.plan import PlannedJob

SHORTEST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds for which a host is not asked that did not say what its sandboxes hold; between them, ten times as long as
that took. Everybody waits for its answer."""
Kind = tuple[object, ...]
"""What jobs have in common that can take each other's place: suite, memory, and what they want of a host."""


@dataclass
class Place:
    """Where one job runs, until `Placement.give_back`."""

    host: Host
    lease: Lease
    gate: StartGate
    memory: int
    suite: str


class Waiting:
    """Jobs that wait for their turn, in order. Looking for the next one costs by kinds of jobs, not by jobs."""

    def __init__(self, jobs: Iterable[PlannedJob] = ()) -> None:
        self._alike: dict[Kind, deque[tuple[int, PlannedJob]]] = {}
        self._heads: list[tuple[int, Kind]] = []
        self._wanted: dict[int, tuple[SandboxConfig, Kind]] = {}
        self._count = 0
        for rank, job in enumerate(jobs):
            self._append(rank, job)
        self._first = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PlannedJob]:
        return (job for _, job in sorted((pair for jobs in self._alike.values() for pair in jobs), key=lambda p: p[0]))

    def heads(self) -> list[PlannedJob]:
        """The first job of each kind, in order."""
        return [self._alike[kind][0][1] for _, kind in self._heads]

    def remove(self, job: PlannedJob) -> None:
        """Take out one of `heads`."""
        kind = self.kind(job)
        jobs = self._alike[kind]
        rank, _ = jobs.popleft()
        self._heads.remove((rank, kind))
        self._count -= 1
        if jobs:
            self._head(jobs[0][0], kind)
        else:
            del self._alike[kind]

    def put_first(self, job: PlannedJob) -> None:
        """Let one that had its turn wait again, before all others."""
        self._first -= 1
        kind = self.kind(job)
        jobs = self._alike.setdefault(kind, deque())
        if jobs:
            self._heads.remove((jobs[0][0], kind))
        jobs.appendleft((self._first, job))
        self._head(self._first, kind)
        self._count += 1

    def kind(self, job: PlannedJob) -> Kind:
        sandbox = job.job.sandbox  # the jobs of a task share it
        known = self._wanted.get(id(sandbox))
        if known is None:
            asked = (sandbox.memory, sandbox.gpus, sandbox.labels, sandbox.exclusive, sandbox.pinned and sandbox.cpus)
            known = self._wanted[id(sandbox)] = (sandbox, asked)
        return (job.job.suite, *known[1])

    def _append(self, rank: int, job: PlannedJob) -> None:
        kind = self.kind(job)
        jobs = self._alike.get(kind)
        if jobs is None:
            jobs = self._alike[kind] = deque()
            self._head(rank, kind)
        jobs.append((rank, job))
        self._count += 1

    def _head(self, rank: int, kind: Kind) -> None:
        insort(self._heads, (rank, kind), key=lambda head: head[0])


@dataclass
class _Kept:
    """What is kept of a host for jobs that wait for it: in one look at the queue, all of them together."""

    jobs: int = 0
    memory: int = 0
    gpus: bool = False
    cores: bool = False
    whole: bool = False
    waiters: frozenset[str] = frozenset()
    """Those of the jobs whom other controllers may have to wait for."""

    def add(self, memory: int, sandbox: SandboxConfig) -> None:
        self.jobs += 1
        self.memory += memory
        self.gpus = self.gpus or sandbox.gpus > 0
        self.cores = self.cores or sandbox.pinned
        self.whole = self.whole or sandbox.exclusive

    def leaves(self, sandbox: SandboxConfig) -> bool:
        """Whether `sandbox` asks for nothing that is kept; slots and memory aside."""
        if self.whole or (sandbox.exclusive and self.jobs):
            return False
        return not ((self.gpus and sandbox.gpus) or (self.cores and sandbox.pinned))


@dataclass
class _Here:
    """One host, and what runs on it."""

    host: Host
    room: Room
    gate: StartGate
    leases: Leases
    jobs: int = 0
    down: bool = False
    waiters: frozenset[str] = frozenset()
    """Jobs that the mark there is for."""
    silent_since: float | None = None
    """When the host first did not say what its sandboxes hold."""
    withdrawn: tuple[str, ...] = ()
    """GPUs that no job gets any more."""
    asked_again_at: float = -float("inf")
    """Before that, a host that did not say is left alone: others have room, and nobody waits for its answer."""

    @property
    def has_been_silent(self) -> bool:
        """For longer than anybody waits."""
        return self.silent_since is not None and time.monotonic() - self.silent_since > PATIENCE

    @property
    def rests(self) -> bool:
        return time.monotonic() < self.asked_again_at

    def fell_silent(self, asked_at: float) -> None:
        """Asked at `asked_at`, it has not said: the longer that took, the longer nobody asks again."""
        now = time.monotonic()
        self.silent_since = asked_at if self.silent_since is None else self.silent_since
        self.asked_again_at = now + min(LONGEST_REST, max(SHORTEST_REST, 10 * (now - asked_at)))

    def wait_for(self, waiters: frozenset[str]) -> None:
        """The mark there is for `waiters` alone, and gone with the last of them."""
        if self.waiters and not waiters:
            self.leases.rest()
        self.waiters = waiters

    def is_open(self, kept: _Kept) -> bool:
        """Whether there may be a place for anybody."""
        if self.down or kept.whole or (self.host.slots is not None and self.jobs + kept.jobs >= self.host.slots):
            return False
        return self.room.fits(1, beside=kept.memory)

    def fits(self, memory: int, sandbox: SandboxConfig, kept: _Kept) -> bool:
        """Whether there is a slot and room for one more; leases aside."""
        return self.is_open(kept) and self.room.fits(memory, beside=kept.memory) and kept.leaves(sandbox)

    def load(self) -> float:
        """How full it is: the scarcest of slots, memory and cores; in jobs where it says nothing of them."""
        shares = [self.room.share]
        if self.host.slots:
            shares.append(self.jobs / self.host.slots)
        elif self.host.cpus:
            shares.append(self.jobs / self.host.cpus)
        return max(shares) if max(shares) > 0 else float(self.jobs)


class Placement:
    """Finds places for jobs. All methods may be called from any thread.

    Args:
        hosts: of the backend.
        suites: jobs of a suite at a time.
        starting: sandboxes of a host that start at once; None is the host's own.
        taken: says what sandboxes of a host hold, by its name.
        directory: of the files that controllers of this machine share; None is that of the machine.
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
                StartGate(starting or host.starting or int(host.cpus or 1), _pace(host, directory)),
                Leases(host.scope, directory),
            )
            for host in hosts
        }
        self._limits = dict(suites or {})
        self._running: Counter[str] = Counter()
        self._kept_on: dict[str, str] = {}
        self._shunned: dict[str, str] = {}
        self._taken = taken
        self._directory = directory
        self._lock = threading.Lock()

    @property
    def alone(self) -> bool:
        """Whether there is but one host."""
        return len(self._here) == 1

    @property
    def waiters(self) -> Mapping[str, str]:
        """Jobs that wait for what other controllers may have: by id, the host where they do."""
        return {job_id: name for name, here in self._here.items() for job_id in here.waiters}

    def next(self, waiting: Waiting) -> tuple[PlannedJob, Place] | None:
        """The first job of `waiting` that has a place now, taken out of it; None if none has."""
        with self._lock:
            kept = {name: _Kept() for name in self._here}
            for job in waiting.heads():
                if not any(here.is_open(kept[name]) for name, here in self._here.items()):
                    break
                place = self._find(job, kept)
                if place is not None:
                    waiting.remove(job)
                    return job, place
            for name, here in self._here.items():
                here.wait_for(kept[name].waiters)
        return None

    def adopt(self, job: PlannedJob, sandbox: Sandbox) -> Place:
        """The place of a job whose `sandbox` is there already, with what that holds."""
        found = sandbox.labels
        with self._lock:
            here = self._here.get(sandbox.host) or self._gone(sandbox.host)
            lease = here.leases.adopt(devices_in(found), cores_in(found), exclusive=EXCLUSIVE in found)
            return self._put(here, job, lease)

    def rest(self) -> None:
        """Nothing is placed any more; whoever else waits for the hosts need not wait for this run's next jobs."""
        with self._lock:
            for here in self._here.values():
                here.wait_for(frozenset())

    def give_back(self, place: Place) -> None:
        with self._lock:
            place.lease.release()
            here = self._here[place.host.name]
            here.jobs -= 1
            here.room.give_back(place.memory)
            self._running[place.suite] -= 1

    def shun(self, job: PlannedJob, host: str) -> None:
        """`job` has failed on `host`: its next place is another one, if another one that answers could run it."""
        with self._lock:
            self._shunned[job.job_id] = host

    def withdraw(self, place: Place) -> None:
        """A job has lost a GPU of `place`: no job of this run gets the GPUs that it had."""
        with self._lock:
            here = self._here[place.host.name]
            left = tuple(name for name in here.host.gpus or () if name not in place.lease.devices)
            here.host = replace(here.host, gpus=None if here.host.gpus is None else left)
            here.withdrawn += place.lease.devices

    def lost(self, host: str) -> None:
        """`host` does not answer; nothing is placed there until it is `back`."""
        with self._lock:
            self._here[host].down = True

    def back(self, host: str) -> None:
        with self._lock:
            self._here[host].down = self._here[host].host.slots == 0

    def has_host_for(self, job: PlannedJob) -> bool:
        """Whether a host that answers could run `job`, with nothing else on it."""
        with self._lock:
            return any(not here.down and could_run(here.host, job.job.sandbox) for here in self._here.values())

    def why_never(self, job: PlannedJob) -> str | None:
        """Why no host can ever run `job`; None if one can."""
        reasons = []
        for name, here in self._here.items():
            if (reason := why_not(here.host, job.job.sandbox)) is None:
                return None
            gone = f" besides {', '.join(here.withdrawn)}, which did not answer any more" if here.withdrawn else ""
            reasons.append(f"host {name} {reason}{gone}" if name else f"the only host {reason}{gone}")
        return f"no host can run it: {'; '.join(reasons)}"

    def _gone(self, name: str) -> _Here:
        """A host that has stopped answering since its sandboxes were found: it has no place for others."""
        host = Host(name, slots=0, scope=f"gone-{name}")
        here = self._here[name] = _Here(host, Room(None), StartGate(1), Leases(host.scope, self._directory), down=True)
        return here

    def _find(self, job: PlannedJob, kept: Mapping[str, _Kept]) -> Place | None:
        """A place for `job`, taken; else None, and a host is kept for it."""
        suite, sandbox = job.job.suite, job.job.sandbox
        if self._running[suite] >= self._limits.get(suite, self._running[suite] + 1):
            return None
        there = [here for here in self._here.values() if not here.down and not here.rests]
        fitting = [here for here in there if could_run(here.host, sandbox)]
        if sandbox.gpus:  # where nobody can tell which there are, there may be none
            fitting = [here for here in fitting if here.host.gpus] or fitting
        if len(fitting) > 1:
            # One that starts nothing is always the emptiest: who has failed there rather waits for another.
            shunned = self._shunned.get(job.job_id)
            fitting = [here for here in fitting if here.host.name != shunned]
            # Whoever asks for no GPU leaves those that have some to others.
            fitting.sort(key=lambda here: (bool(here.host.gpus) != bool(sandbox.gpus), here.load()))
        for here in fitting:
            place = self._take(here, job, kept[here.host.name])
            if place is not None:
                self._kept_on.pop(job.job_id, None)
                self._shunned.pop(job.job_id, None)
                return place
        if fitting:
            # The same as before: hosts that take turns at being the emptiest would never be empty enough.
            names = [here.host.name for here in fitting]
            before = self._kept_on.get(job.job_id)
            name = self._kept_on[job.job_id] = before if before in names else names[0]
            self._mark(self._here[name], job, kept[name])
            kept[name].add(job.memory, sandbox)
        return None

    def _take(self, here: _Here, job: PlannedJob, kept: _Kept) -> Place | None:
        sandbox, host = job.job.sandbox, here.host
        if not here.fits(job.memory, sandbox, kept):
            return None
        asked_at = time.monotonic()
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
            here.fell_silent(asked_at)
            if all(here.down or here.has_been_silent for here in self._here.values()):
                raise
            return None
        here.silent_since = None
        if lease is None:
            return None
        here.wait_for(here.waiters - {job.job_id})
        return self._put(here, job, lease)

    def _mark(self, here: _Here, job: PlannedJob, kept: _Kept) -> None:
        """`job` waits for `here`: who comes later, from wherever, is not to overtake it."""
        sandbox = job.job.sandbox
        full = not here.fits(job.memory, sandbox, kept)  # of this run's own jobs, which nobody else can overtake
        if not full and not here.rests:
            some = bool(sandbox.pinned or (sandbox.gpus and here.host.gpus))
            here.leases.wait(exclusive=sandbox.exclusive, some=some)
            here.waiters |= {job.job_id}
            kept.waiters |= {job.job_id}

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
        there = f"{len(host.gpus)} GPU{'s' if len(host.gpus) > 1 else ''}"
        return f"has {there}, not {sandbox.gpus}" if host.gpus else "has no GPUs"
    if (sandbox.pinned or sandbox.exclusive) and host.cpus is None:
        return f"is no machine that a job could have {'cores of' if sandbox.pinned else 'to itself'}"
    if sandbox.pinned and sandbox.cpus > (host.cpus or 0):
        return f"has {host.cpus:g} cores, of which {sandbox.cpus:g} cannot be pinned"
    return None


def _pace(host: Host, directory: Path | None) -> Pace | None:
    return Pace(host.scope, host.creations_per_second, directory) if host.creations_per_second else None
