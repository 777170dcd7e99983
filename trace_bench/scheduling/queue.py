"""The queue of jobs that wait for a host."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator

from trace_bench.config.models import SandboxConfig
from trace_bench.planning.planned_job import PlannedJob

Kind = tuple[object, ...]
"""What interchangeable jobs share: suite, memory, and their requirements of a host."""


class JobQueue:
    """Jobs in the order of their starts. The time to find the next one grows with kinds of jobs, not with jobs."""

    def __init__(self, jobs: Iterable[PlannedJob] = ()) -> None:
        self._by_kind: dict[Kind, deque[tuple[int, PlannedJob]]] = {}
        self._heads: list[tuple[int, Kind]] = []
        self._requirements: dict[int, tuple[SandboxConfig, Kind]] = {}
        self._count = 0
        self._first_rank = 0
        for rank, job in enumerate(jobs):
            kind = self.kind(job)
            if kind not in self._by_kind:
                self._by_kind[kind] = deque()
                self._add_head(rank, kind)
            self._by_kind[kind].append((rank, job))
            self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PlannedJob]:
        ranked = (pair for jobs in self._by_kind.values() for pair in jobs)
        return (job for _, job in sorted(ranked, key=lambda pair: pair[0]))

    def heads(self) -> list[PlannedJob]:
        """The first job of each kind, in order."""
        return [self._by_kind[kind][0][1] for _, kind in self._heads]

    def remove(self, job: PlannedJob) -> None:
        """Take out one of `heads`."""
        kind = self.kind(job)
        jobs = self._by_kind[kind]
        rank, _ = jobs.popleft()
        self._heads.remove((rank, kind))
        self._count -= 1
        if jobs:
            self._add_head(jobs[0][0], kind)
        else:
            del self._by_kind[kind]

    def put_first(self, job: PlannedJob) -> None:
        """Put a job before all others. It had an allocation before, and needs another one."""
        self._first_rank -= 1
        kind = self.kind(job)
        jobs = self._by_kind.setdefault(kind, deque())
        if jobs:
            self._heads.remove((jobs[0][0], kind))
        jobs.appendleft((self._first_rank, job))
        self._add_head(self._first_rank, kind)
        self._count += 1

    def kind(self, job: PlannedJob) -> Kind:
        """The kind of `job`."""
        sandbox = job.job.sandbox  # the jobs of a task share it, so it is looked at once
        known = self._requirements.get(id(sandbox))
        if known is None:
            kind = (sandbox.memory, sandbox.gpus, sandbox.labels, sandbox.exclusive, sandbox.pinned and sandbox.cpus)
            known = self._requirements[id(sandbox)] = (sandbox, kind)
        return (job.job.suite, *known[1])

    def _add_head(self, rank: int, kind: Kind) -> None:
        insort(self._heads, (rank, kind), key=lambda head: head[0])
