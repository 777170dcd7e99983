"""Which job starts next, and on which host."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_bench.config.models import SandboxConfig
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.requirements import can_run
from trace_bench.sandbox.base import Host
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.queue import JobQueue

GIB = 1 << 30
_ids = count()


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCK_DIR_VARIABLE, str(tmp_path))


@dataclass(frozen=True)
class Job:
    """As much of a planned job as allocator looks at."""

    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    suite: str = "internal"
    job_id: str = field(default_factory=lambda: f"{next(_ids):012x}")

    @property
    def memory(self) -> int:
        return self.sandbox.memory

    @property
    def job(self) -> Any:
        return SimpleNamespace(sandbox=self.sandbox, suite=self.suite)


def a_job(suite: str = "internal", **sandbox: Any) -> PlannedJob:
    return cast(PlannedJob, Job(SandboxConfig(**{"memory": GIB, **sandbox}), suite))


def names(found: Sequence[tuple[PlannedJob, Allocation]]) -> list[str]:
    return [allocation.host.name for _, allocation in found]


def all_next(allocator: Allocator, waiting: JobQueue) -> list[tuple[PlannedJob, Allocation]]:
    found = []
    while (one := allocator.allocate_next(waiting)) is not None:
        found.append(one)
    return found


def test_jobs_go_in_order_and_fill_hosts_evenly() -> None:
    allocator = Allocator([Host("a", slots=4), Host("b", slots=2)])
    jobs = [a_job() for _ in range(8)]
    waiting = JobQueue(jobs)
    found = all_next(allocator, waiting)
    assert [job for job, _ in found] == jobs[:6] and list(waiting) == jobs[6:]
    assert names(found) == ["a", "b", "a", "a", "b", "a"]


def test_a_suite_at_its_limit_lets_others_pass() -> None:
    allocator = Allocator([Host(slots=8)], suites={"slow": 1})
    jobs = [a_job("slow"), a_job("slow"), a_job("quick"), a_job("slow"), a_job("quick")]
    waiting = JobQueue(jobs)
    found = all_next(allocator, waiting)
    assert [job for job, _ in found] == [jobs[0], jobs[2], jobs[4]]
    allocator.release(found[0][1])
    assert [job for job, _ in all_next(allocator, waiting)] == [jobs[1]]


def test_labels_choose_the_host() -> None:
    allocator = Allocator([Host("plain"), Host("fast", labels=frozenset({"avx512"}))])
    found = all_next(allocator, JobQueue([a_job(labels=("avx512",)) for _ in range(3)]))
    assert names(found) == ["fast"] * 3
    assert allocator.why_impossible(a_job(labels=("tpu",))) == (
        "no host can run it: host plain has no label 'tpu'; host fast has no label 'tpu'"
    )
    assert allocator.allocate_next(JobQueue([a_job(labels=("tpu",))])) is None


def test_jobs_without_gpus_leave_the_hosts_that_have_some_to_others() -> None:
    allocator = Allocator([Host("gpu", slots=4, gpus=("0", "1")), Host("cpu", slots=2)])
    assert names(all_next(allocator, JobQueue([a_job() for _ in range(3)]))) == ["cpu", "cpu", "gpu"]
    assert names(all_next(allocator, JobQueue([a_job(gpus=1)]))) == ["gpu"]


def test_jobs_that_need_no_gpu_pass_those_that_wait_for_one() -> None:
    allocator = Allocator([Host(slots=4, gpus=("0",))])
    gpu = [a_job(gpus=1) for _ in range(3)]
    cpu = [a_job() for _ in range(4)]
    waiting = JobQueue([*gpu, *cpu])
    found = all_next(allocator, waiting)
    assert [job for job, _ in found] == [gpu[0], cpu[0], cpu[1]], "a slot is kept for the next one with a GPU"
    allocator.release(found[1][1])
    assert [job for job, _ in all_next(allocator, waiting)] == [cpu[2]]
    allocator.release(found[0][1])
    assert [job for job, _ in all_next(allocator, waiting)] == [gpu[1]]


def test_a_large_job_waits_for_one_host_and_small_ones_pass_on_the_others() -> None:
    allocator = Allocator([Host("a", memory_bytes=10 * GIB), Host("b", memory_bytes=10 * GIB)])
    small, large = [a_job(memory=4 * GIB) for _ in range(8)], a_job(memory=8 * GIB)
    first = all_next(allocator, JobQueue(small[:4]))
    waiting = JobQueue([large, *small[4:]])
    assert allocator.allocate_next(waiting) is None, "both are full"
    by_host = {name: [allocation for _, allocation in first if allocation.host.name == name] for name in "ab"}
    passed = []
    for _ in range(4):  # the emptiest host changes again and again; the one that is kept does not
        for name in "ab":
            if by_host[name]:
                allocator.release(by_host[name].pop())
            for job, allocation in all_next(allocator, waiting):
                passed.append(job)
                if job is not large:
                    by_host[allocation.host.name].append(allocation)
        if large in passed:
            break
    assert passed.index(large) <= 2


def test_the_host_that_is_kept_stays_the_same_however_full_the_others_are() -> None:
    """Else hosts would take turns at being the emptiest, and GPUs that are waited for would be given away."""
    allocator = Allocator([Host(name, slots=8, gpus=("0", "1"), scope=name) for name in "ab"])
    one_each = all_next(allocator, JobQueue([a_job(gpus=1), a_job(gpus=1)]))
    assert names(one_each) == ["a", "b"]
    both = a_job(gpus=2)
    waiting = JobQueue([both])
    assert allocator.allocate_next(waiting) is None
    without = all_next(allocator, JobQueue([both, *(a_job() for _ in range(5))]))
    later = JobQueue([both, *(a_job("later", gpus=1) for _ in range(4))])
    small = all_next(allocator, later)
    assert len(without) == 5 and names(small) == ["b"], "of host a nothing is taken that is waited for"
    allocator.release(one_each[0][1])
    assert names(all_next(allocator, later)) == ["a"] and both not in later


def test_an_exclusive_job_gets_its_turn_though_others_could_go_on_for_ever() -> None:
    allocator = Allocator([Host(slots=2, cpus=2)])
    running = [allocation for _, allocation in all_next(allocator, JobQueue([a_job()]))]
    quiet = a_job(exclusive=True)
    waiting = JobQueue([quiet, a_job(), a_job()])
    assert allocator.allocate_next(waiting) is None, "nobody overtakes it"
    allocator.release(running[0])
    (found, allocation) = allocator.allocate_next(waiting) or (None, None)
    assert found is quiet and allocator.allocate_next(waiting) is None and allocation is not None
    allocator.release(allocation)
    assert len(all_next(allocator, waiting)) == 2


def test_nothing_is_placed_on_a_host_that_is_lost_until_it_is_back() -> None:
    allocator = Allocator([Host("a"), Host("b")])
    allocator.mark_lost("a")
    only_a = a_job()
    assert names(all_next(allocator, JobQueue([a_job(), a_job()]))) == ["b", "b"]
    allocator.mark_lost("b")
    assert allocator.allocate_next(JobQueue([only_a])) is None and not allocator.has_available_host(only_a)
    allocator.mark_back("a")
    assert allocator.has_available_host(only_a) and names(all_next(allocator, JobQueue([only_a]))) == ["a"]


def test_a_job_that_comes_back_goes_before_all_others() -> None:
    jobs = [a_job(), a_job("other"), a_job()]
    waiting = JobQueue(jobs)
    waiting.remove(jobs[0])
    back = a_job("third")
    waiting.put_first(jobs[0])
    waiting.put_first(back)
    assert len(waiting) == 4 and list(waiting) == [back, *jobs] and waiting.heads() == [back, jobs[0], jobs[1]]


SANDBOXES = st.builds(
    SandboxConfig,
    memory=st.sampled_from([GIB, 3 * GIB, 7 * GIB, 30 * GIB]),
    gpus=st.sampled_from([0, 0, 0, 1, 2]),
    labels=st.sampled_from([(), (), ("x",)]),
    pinned=st.sampled_from([False, False, True]),
    exclusive=st.sampled_from([False, False, False, True]),
)
HOSTS = st.lists(
    st.builds(
        Host,
        name=st.builds(lambda: f"host {next(_ids)}"),
        slots=st.sampled_from([None, 1, 2, 4]),
        cpus=st.just(2.0),
        memory_bytes=st.sampled_from([None, 8 * GIB, 16 * GIB]),
        gpus=st.sampled_from([(), ("0",), ("0", "1")]),
        labels=st.sampled_from([frozenset(), frozenset({"x"})]),
        scope=st.builds(lambda: f"scope {next(_ids)}"),
    ),
    min_size=1,
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTS, st.lists(SANDBOXES, min_size=1, max_size=5), st.data())
def test_every_job_has_its_turn_and_no_limit_is_passed(
    hosts: list[Host], kinds: list[SandboxConfig], data: st.DataObject
) -> None:
    """Jobs end in any order. As long as any runs, whatever could run beside them and beside what is kept does."""
    limits = {"a": data.draw(st.integers(1, 3))}
    allocator = Allocator(hosts, suites=limits)
    chosen = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(kinds)), min_size=1, max_size=25))
    jobs = [cast(PlannedJob, Job(sandbox, suite)) for suite, sandbox in chosen]
    possible = [job for job in jobs if allocator.why_impossible(job) is None]
    waiting, running, done = JobQueue(possible), [], []
    while waiting or running:
        running += all_next(allocator, waiting)
        assert running, f"nothing runs though {len(waiting)} jobs wait"
        _check(hosts, limits, running)
        full = {suite for suite in limits if sum(job.job.suite == suite for job, _ in running) >= limits[suite]}
        for host in hosts:
            if host.name not in {allocation.host.name for _, allocation in running}:
                idle = [job for job in waiting if can_run(host, job.job.sandbox) and job.job.suite not in full]
                assert not idle, "it could run there"
        job, allocation = running.pop(data.draw(st.integers(0, len(running) - 1)))
        allocator.release(allocation)
        done.append(job.job_id)
    assert sorted(done) == sorted(job.job_id for job in possible)


def _check(hosts: Sequence[Host], limits: dict[str, int], running: Sequence[tuple[PlannedJob, Allocation]]) -> None:
    suites = Counter(job.job.suite for job, _ in running)
    assert all(suites[suite] <= limit for suite, limit in limits.items())
    for host in hosts:
        here = [(job, allocation) for job, allocation in running if allocation.host.name == host.name]
        assert host.slots is None or len(here) <= host.slots
        if host.memory_bytes is not None and len(here) > 1:
            assert sum(job.memory for job, _ in here) <= 0.9 * host.memory_bytes
        devices = [device for _, allocation in here for device in allocation.lease.devices]
        cores = [core for _, allocation in here for core in allocation.lease.cpuset]
        assert len(devices) == len(set(devices)) and len(cores) == len(set(cores))
        assert all(set(job.job.sandbox.labels) <= host.labels for job, _ in here)
        assert len(here) == 1 or not any(job.job.sandbox.exclusive for job, _ in here)


def test_choosing_the_next_of_many_jobs_is_cheap() -> None:
    """A hundred thousand jobs of fifty kinds on ten hosts, of which all are full most of the time."""
    kinds = [SandboxConfig(memory=GIB + n) for n in range(50)]
    jobs = [cast(PlannedJob, Job(kinds[n % 50], f"suite{n % 7}", str(n))) for n in range(100_000)]
    allocator = Allocator([Host(f"h{n}", slots=10, scope="one") for n in range(10)], suites={"suite0": 5})
    began = time.process_time()
    waiting = JobQueue(jobs)
    built = time.process_time() - began
    running = all_next(allocator, waiting)
    began, looked = time.process_time(), 300
    for _ in range(looked):
        allocator.release(running.pop(0)[1])
        running += all_next(allocator, waiting)
        assert len(waiting) and len(running) <= 100
    each = (time.process_time() - began) / looked
    assert built < 2.0
    assert each < 0.005, f"{each * 1000:.1f} ms"
    for _, allocation in running:
        allocator.release(allocation)
