"""Allocate hosts to jobs: slots, memory, GPUs, cores, and limits of suites.

Jobs are allocated in the order of the queue. A job that only its suite's limit holds back lets others pass. For a job
that waits for memory, GPUs, cores or an idle host, one host is reserved: jobs that pass it leave that host what it
waits for (backfilling with a reservation for each kind of job; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001). So it
gets its turn once the jobs that run there now have ended, and resources that it does not need are not idle.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trace_bench.errors import SandboxError
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.requirements import MemoryPool, can_run, unmet_requirement
from trace_bench.sandbox.base import Host, Sandbox
from trace_bench.sandbox.errors import EngineRefused
from trace_bench.sandbox.labels import EXCLUSIVE
from trace_bench.sandbox.leases import Lease, Leases, Taken, cores_in, devices_in
from trace_bench.sandbox.pace import Pace
from trace_bench.scheduling.hosts import HostState, Reservation
from trace_bench.scheduling.queue import JobQueue
from trace_bench.scheduling.starting import StartGate


@dataclass
class Allocation:
    """What one job has of one host, until `Allocator.release`."""

    host: Host
    lease: Lease
    gate: StartGate
    memory: int
    suite: str


class Allocator:
    """Allocates hosts to jobs. All methods may be called from any thread.

    Args:
        hosts: of the backend.
        suites: most jobs at a time, by suite.
        starting: most sandboxes of a host that start at a time; None uses the host's own limit.
        taken: returns what the sandboxes of a host hold, by the host's name.
        directory: of the files that the controllers of this machine share; None is the machine's.
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
        self._hosts = {
            host.name: HostState(
                host,
                MemoryPool(host.memory_bytes),
                StartGate(starting or host.starting or int(host.cpus or 1), _pace(host, directory)),
                Leases(host.scope, directory),
            )
            for host in hosts
        }
        self._limits = dict(suites or {})
        self._running: Counter[str] = Counter()
        self._reserved_on: dict[str, str] = {}
        self._avoided: dict[str, str] = {}
        self._taken = taken
        self._directory = directory
        self._lock = threading.Lock()

    @property
    def has_one_host(self) -> bool:
        return len(self._hosts) == 1

    @property
    def waiting(self) -> Mapping[str, str]:
        """Jobs that wait for resources which other controllers may hold: by job id, the host."""
        return {job_id: name for name, state in self._hosts.items() for job_id in state.waiting}

    def allocate_next(self, queue: JobQueue) -> tuple[PlannedJob, Allocation] | None:
        """Take the first job out of `queue` that can start now; None if there is none."""
        with self._lock:
            reserved = {name: Reservation() for name in self._hosts}
            for job in queue.heads():
                if not any(state.is_open(reserved[name]) for name, state in self._hosts.items()):
                    break
                allocation = self._allocate(job, reserved)
                if allocation is not None:
                    queue.remove(job)
                    return job, allocation
            for name, state in self._hosts.items():
                state.set_waiting(reserved[name].waiting)
        return None

    def adopt(self, job: PlannedJob, sandbox: Sandbox) -> Allocation:
        """The allocation of a job whose `sandbox` exists already, with what that sandbox holds."""
        labels = sandbox.labels
        with self._lock:
            state = self._hosts.get(sandbox.host) or self._add_gone_host(sandbox.host)
            lease = state.leases.adopt(devices_in(labels), cores_in(labels), exclusive=EXCLUSIVE in labels)
            return self._add(state, job, lease)

    def stop_waiting(self) -> None:
        """Remove all wait marks: nothing more is allocated, so other controllers need not wait for this run's jobs."""
        with self._lock:
            for state in self._hosts.values():
                state.set_waiting(frozenset())

    def release(self, allocation: Allocation) -> None:
        with self._lock:
            allocation.lease.release()
            state = self._hosts[allocation.host.name]
            state.jobs -= 1
            state.memory.release(allocation.memory)
            self._running[allocation.suite] -= 1

    def avoid_host(self, job: PlannedJob, host: str) -> None:
        """Give `job`, which has failed on `host`, another host next, if another reachable one can run it."""
        with self._lock:
            self._avoided[job.job_id] = host

    def withdraw_gpus(self, allocation: Allocation) -> None:
        """Give the GPUs of `allocation`, one of which was lost, to no further job of this run."""
        with self._lock:
            state = self._hosts[allocation.host.name]
            left = tuple(name for name in state.host.gpus or () if name not in allocation.lease.devices)
            state.host = replace(state.host, gpus=None if state.host.gpus is None else left)
            state.withdrawn += allocation.lease.devices

    def mark_lost(self, host: str) -> None:
        """Allocate nothing on `host` until `mark_back`."""
        with self._lock:
            self._hosts[host].down = True

    def mark_back(self, host: str) -> None:
        with self._lock:
            self._hosts[host].down = self._hosts[host].host.slots == 0

    def has_available_host(self, job: PlannedJob, besides: str | None = None) -> bool:
        """Whether a reachable host, `besides` the one of that name, could run `job` if it was idle."""
        sandbox = job.job.sandbox
        with self._lock:
            others = [state for name, state in self._hosts.items() if name != besides]
            return any(not state.down and can_run(state.host, sandbox) for state in others)

    def why_impossible(self, job: PlannedJob) -> str | None:
        """Why no host can ever run `job`; None if one can."""
        reasons = []
        for name, state in self._hosts.items():
            if (reason := unmet_requirement(state.host, job.job.sandbox)) is None:
                return None
            gone = f" besides {', '.join(state.withdrawn)}, which no longer answered" if state.withdrawn else ""
            reasons.append(f"host {name} {reason}{gone}" if name else f"the only host {reason}{gone}")
        return f"no host can run it: {'; '.join(reasons)}"

    def _add_gone_host(self, name: str) -> HostState:
        """A host that became unreachable after its sandboxes were found: it takes no further jobs."""
        host = Host(name, slots=0, scope=f"gone-{name}")
        leases = Leases(host.scope, self._directory)
        state = self._hosts[name] = HostState(host, MemoryPool(None), StartGate(1), leases, down=True)
        return state

    def _allocate(self, job: PlannedJob, reserved: Mapping[str, Reservation]) -> Allocation | None:
        """An allocation for `job`; if there is none now, reserve a host for it."""
        suite = job.job.suite
        if self._running[suite] >= self._limits.get(suite, self._running[suite] + 1):
            return None
        candidates = self._candidates(job)
        for state in candidates:
            allocation = self._take(state, job, reserved[state.host.name])
            if allocation is not None:
                self._reserved_on.pop(job.job_id, None)
                self._avoided.pop(job.job_id, None)
                return allocation
        if candidates:
            # The same host as before: if the reservation moved to whichever is emptiest, none would get empty enough.
            names = [state.host.name for state in candidates]
            before = self._reserved_on.get(job.job_id)
            name = self._reserved_on[job.job_id] = before if before in names else names[0]
            self._mark_waiting(self._hosts[name], job, reserved[name])
            reserved[name].add(job.memory, job.job.sandbox)
        return None

    def _candidates(self, job: PlannedJob) -> list[HostState]:
        """The reachable hosts that can run `job`, the best first."""
        sandbox = job.job.sandbox
        reachable = [state for state in self._hosts.values() if not state.down and not state.is_left_alone]
        found = [state for state in reachable if can_run(state.host, sandbox)]
        if sandbox.gpus:  # a host that does not report its GPUs may have none
            found = [state for state in found if state.host.gpus] or found
        if len(found) > 1:
            # A host on which nothing starts is always the emptiest: a job that failed there prefers to wait.
            avoided = self._avoided.get(job.job_id)
            found = [state for state in found if state.host.name != avoided]
            # Jobs without GPUs leave hosts with GPUs to others.
            found.sort(key=lambda state: (bool(state.host.gpus) != bool(sandbox.gpus), state.load()))
        return found

    def _take(self, state: HostState, job: PlannedJob, reserved: Reservation) -> Allocation | None:
        sandbox, host = job.job.sandbox, state.host
        if not state.fits(job.memory, sandbox, reserved):
            return None
        started = time.monotonic()
        try:
            lease = state.leases.take(
                devices=host.gpus or (),
                gpus=sandbox.gpus if host.gpus else 0,
                cores=int(sandbox.cpus) if sandbox.pinned else 0,
                of_cores=range(int(host.cpus or 0)),
                exclusive=sandbox.exclusive,
                taken=lambda: self._taken(host.name),
            )
        except SandboxError as error:
            # It may come back, as it may for jobs that run there, and others may answer.
            state.query_failed(started, for_good=isinstance(error, EngineRefused))
            if all(state.down or state.is_given_up for state in self._hosts.values()):
                raise
            return None
        state.silent_since = None
        if lease is None:
            return None
        state.set_waiting(state.waiting - {job.job_id})
        return self._add(state, job, lease)

    def _mark_waiting(self, state: HostState, job: PlannedJob, reserved: Reservation) -> None:
        """Leave a wait mark for `job` on a host, so that no job of another controller overtakes it.

        A host that is full of this run's own jobs needs no mark: no other controller can overtake there.
        """
        sandbox = job.job.sandbox
        if state.fits(job.memory, sandbox, reserved) and not state.is_left_alone:
            some = bool(sandbox.pinned or (sandbox.gpus and state.host.gpus))
            state.leases.wait(exclusive=sandbox.exclusive, some=some)
            state.waiting |= {job.job_id}
            reserved.waiting |= {job.job_id}

    def _add(self, state: HostState, job: PlannedJob, lease: Lease) -> Allocation:
        state.jobs += 1
        state.memory.take(job.memory)
        self._running[job.job.suite] += 1
        return Allocation(state.host, lease, state.gate, job.memory, job.job.suite)


def _pace(host: Host, directory: Path | None) -> Pace | None:
    return Pace(host.scope, host.creations_per_second, directory) if host.creations_per_second else None
