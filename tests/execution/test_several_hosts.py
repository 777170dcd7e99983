"""Runs on several hosts: where jobs go, and what becomes of them when a host goes away or takes no more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.execution.bench import TASKS, Bench, attempts, entries, fingerprints_of_files, journal
from tests.execution.simulated import SimulatedBackend, SimulatedSandbox
from tests.execution.supervisor import Script
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cancellation import Cancellation
from trace_bench.config.models import RunConfig
from trace_bench.errors import Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.cancel import request_cancellation
from trace_bench.execution.reporting import RunReporter
from trace_bench.planning.requirements import worker_warnings
from trace_bench.sandbox.base import Host, SandboxRequest, Traits
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    EngineUnfit,
    GpusMissing,
    OutOfDisk,
    RateLimited,
    RuntimeMissing,
)
from trace_bench.sandbox.leases import Leases
from trace_bench.scheduling import outage, starting

FOREVER = float("inf")


@pytest.fixture
def hosts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two hosts, of two slots each, and eight jobs."""
    monkeypatch.setattr(outage, "LAST_LOOK", 0.0)
    bench.backend.several = (Host("a", slots=2, scope="a"), Host("b", slots=2, scope="b"))
    bench.config = {"seeds": [1, 2], "retries": 2}
    return bench


def placed(bench: Bench) -> Counter[str]:
    """Where sandboxes are made, from now on."""
    met: Counter[str] = Counter()
    before = bench.backend.on_create

    def note(request: SandboxRequest) -> None:
        met[request.host] += 1
        before(request)

    bench.backend.on_create = note
    return met


def first_of(bench: Bench) -> str:
    """The job that starts first."""
    plan = bench.plan()
    return plan.jobs[plan.order[0]].job_id


def events(result: Any, *kinds: str) -> list[dict[str, Any]]:
    return [line for line in journal(result.layout) if line["event"] in kinds]


def test_a_required_control_that_a_backend_cannot_set_ends_the_plan(hosts: Bench) -> None:
    hosts.backend.cannot = {"pids": "no such limit"}
    hosts.plan()
    hosts.config["sandbox"] = {"require_controls": ["pids", "network"]}
    with pytest.raises(ControlMissing, match=r"backend cannot put in force: pids \(no such limit\)\. "):
        hosts.plan()


def test_jobs_fill_the_slots_of_all_hosts(hosts: Bench) -> None:
    met = placed(hosts)
    hosts.backend.script = lambda job_id, number: Script(seconds=0.05)
    result = hosts.run()
    assert result.ok and hosts.backend.most_alive == 4 and met == {"a": 4, "b": 4}
    starts = events(result, "job.start")
    assert Counter(line["host"] for line in starts) == met and all(line["waited"] >= 0 for line in starts)


def test_jobs_of_a_host_that_goes_away_move_on_at_once(hosts: Bench) -> None:
    met = placed(hosts)
    first = first_of(hosts)  # it is on host a

    def script(job_id: str, number: int) -> Script:
        if (job_id, number) != (first, 1):
            return Script()
        threading.Timer(0.4, lambda: hosts.backend.away.update(a=FOREVER)).start()
        return Script(ends="hangs")

    hosts.backend.script = script
    began = time.monotonic()
    result = hosts.run()
    assert result.ok and time.monotonic() - began < 8
    assert attempts(result.layout, first) == [(1, "failed"), (2, "ok")]
    (lost,) = events(result, "host.lost")
    assert lost["host"] == "a" and not events(result, "host.back")
    moved = {line["job_id"]: line["failure_kind"] for line in events(result, "job.retry")}
    assert first in moved and set(moved.values()) == {"engine_gone"}
    assert met["b"] >= 4 and len(events(result, "job.start")) == len(events(result, "job.end")) == 8


def test_a_host_that_is_back_is_rid_of_what_has_left_it_and_has_jobs_again(hosts: Bench) -> None:
    backend = hosts.backend
    where: dict[tuple[str, str], float] = {}

    def create(request: SandboxRequest) -> None:
        where.setdefault((request.host, request.labels["trace-bench.job"]), time.monotonic())
        if len(where) == 4:
            backend.away["a"] = time.monotonic() + 0.3

    backend.on_create = create
    backend.script = lambda job_id, number: Script(seconds=0.15)
    result = hosts.run(seeds=list(range(8)))
    assert result.ok and backend.alive == 0
    assert [line["event"] for line in events(result, "host.lost", "host.back")] == ["host.lost", "host.back"]
    back = backend.away["a"]
    assert any(host == "a" and at > back for (host, _), at in where.items()), "it has jobs again"


def test_with_no_host_left_jobs_wait_for_one(hosts: Bench) -> None:
    def create(request: SandboxRequest) -> None:
        if not hosts.backend.away:
            hosts.backend.away = dict.fromkeys("ab", time.monotonic() + 0.2)

    hosts.backend.on_create = create
    result = hosts.run(retries=9)
    assert result.ok and hosts.backend.alive == 0


def test_with_none_left_for_too_long_the_run_ends(hosts: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PATIENCE", 0.3)
    hosts.backend.on_create = lambda request: hosts.backend.away.update(a=FOREVER, b=FOREVER)
    with pytest.raises(EngineGone):
        hosts.run()
    hosts.backend.away.clear()
    hosts.backend.on_create = lambda request: None
    result = hosts.run()
    assert result.ok and len(hosts.runs()) == 1 and hosts.backend.alive == 0


def test_without_retries_the_loss_of_its_host_is_the_end_of_a_job(hosts: Bench) -> None:
    first = first_of(hosts)

    def script(job_id: str, number: int) -> Script:
        if job_id != first:
            return Script()
        threading.Timer(0.3, lambda: hosts.backend.away.update(a=FOREVER)).start()
        return Script(ends="hangs")

    hosts.backend.script = script
    result = hosts.run(retries=0)
    failed = {row.job_id: row.failure_kind for row in result.rows if row.status == "failed"}
    assert first in failed and set(failed.values()) == {"engine_gone"}


def test_who_waits_for_another_host_ends_at_once_when_the_run_does(hosts: Bench) -> None:
    wish: list[str] = []

    def create(request: SandboxRequest) -> None:
        hosts.backend.away = dict.fromkeys("ab", FOREVER)
        threading.Timer(0.3, lambda: wish.append("interrupted")).start()

    hosts.backend.on_create = create
    began = time.monotonic()
    with pytest.raises(Interrupted):
        hosts.run(stop_wanted=lambda: wish[0] if wish else None)
    assert time.monotonic() - began < 4
    (run,) = hosts.runs()
    assert {entry["status"] for entry in entries(RunLayout(run)).values()} == {"failed", "not_executed"}
    hosts.backend.away.clear()
    hosts.backend.on_create = lambda request: None
    assert hosts.run().ok and len(hosts.runs()) == 1


def test_a_job_that_failed_on_one_host_tries_another(hosts: Bench) -> None:
    met = Counter[str]()

    def create(request: SandboxRequest) -> None:
        met[request.host] += 1
        if request.host == "a" and met["a"] < outage.BROKEN:
            raise SandboxError("this host has not been given the image")

    hosts.backend.on_create = create
    hosts.backend.script = lambda job_id, number: Script(seconds=0.3)  # longer, together, than the pause of who failed
    result = hosts.run(retries=1, max_workers=2)
    assert result.ok and met["a"] >= 2 <= met["b"] and not events(result, "host.lost")


def starts_nothing(request: SandboxRequest) -> None:
    if request.host == "a":
        raise SandboxError("this host has not been given the image")


def test_a_host_that_starts_nothing_does_not_use_up_the_attempts_of_all_jobs(hosts: Bench) -> None:
    """It has room for everybody, always."""
    hosts.backend.on_create = starts_nothing
    hosts.backend.script = lambda job_id, number: Script(seconds=0.3)
    result = hosts.run(retries=1, seeds=[1, 2, 3])
    assert result.ok and [line["host"] for line in events(result, "host.lost")] == ["a"]


def test_a_host_that_starts_nothing_has_few_jobs_even_if_nothing_is_tried_again(hosts: Bench) -> None:
    hosts.backend.on_create = starts_nothing
    result = hosts.run(retries=0, seeds=list(range(6)))
    failed = [row for row in result.rows if row.status == "failed"]
    assert outage.BROKEN <= len(failed) <= 16 and len(result.rows) == 24


def test_what_starts_nowhere_is_no_host_s_fault(hosts: Bench) -> None:
    def create(request: SandboxRequest) -> None:
        raise SandboxError("the image is of another processor")

    hosts.backend.on_create = create
    result = hosts.run(retries=1, seeds=[1, 2])
    assert {row.status for row in result.rows} == {"failed"} and not events(result, "host.lost")


def test_jobs_that_fail_after_their_first_word_are_not_the_host_s_fault(hosts: Bench) -> None:
    hosts.backend.script = lambda job_id, number: Script(failure="sandbox")
    result = hosts.run(retries=0)
    assert {row.status for row in result.rows} == {"failed"} and not events(result, "host.lost")


def test_a_host_rests_longer_each_time_it_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "INTERVAL", 0.01)
    monkeypatch.setattr(outage, "REST", 0.1)
    back = threading.Event()
    backend = SimpleNamespace(hosts=lambda: [Host("a")], find=lambda labels: [])
    allocator = SimpleNamespace(mark_lost=lambda host: back.clear(), mark_back=lambda host: back.set())
    lost = outage.LostHosts(cast(Any, backend), cast(Any, allocator), "run")

    def rested() -> float:
        began = time.monotonic()
        lost.lost("a", "job", SandboxError("nothing starts"))
        assert back.wait(5)
        return time.monotonic() - began

    assert [lost.start_failed("a", "s") for _ in range(4)] == [False] * 4, "nor does any other"
    lost.start_succeeded("b", "s")
    lost.start_succeeded("a", "another")
    assert [lost.start_failed("a", "s") for _ in range(4)] == [False, False, True, True]
    times = [rested() for _ in range(3)]
    assert 0.1 <= times[0] < 0.2 <= times[1] < 0.4 <= times[2]
    lost.start_succeeded("a", "s")
    assert not lost.start_failed("a", "s") and rested() < 0.2
    lost.close()


def test_a_host_whose_disk_is_full_has_no_jobs_for_a_while(hosts: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "REST", 0.5)
    times: list[float] = []

    def create(request: SandboxRequest) -> None:
        if request.host == "a":
            times.append(time.monotonic())
            if times[-1] < times[0] + 0.2:
                raise OutOfDisk("no space left on device")

    hosts.backend.on_create = create
    hosts.backend.script = lambda job_id, number: Script(seconds=0.1)
    result = hosts.run(seeds=list(range(6)))
    assert result.ok and [line["host"] for line in events(result, "host.lost", "host.back")] == ["a", "a"]
    later = [at - times[0] for at in times if at > times[0] + 0.2]
    assert later and min(later) >= 0.5


@pytest.mark.parametrize(
    "lacks",
    [
        ControlMissing("no apparmor"),
        EngineUnfit("no apparmor_parser"),
        GpusMissing("no GPUs"),
        RuntimeMissing("no runsc"),
    ],
    ids=repr,
)
def test_what_one_host_lacks_another_may_have(hosts: Bench, lacks: TraceBenchError) -> None:
    met = placed(hosts)
    before = hosts.backend.on_create

    def create(request: SandboxRequest) -> None:
        before(request)
        if request.host == "a":
            raise lacks

    hosts.backend.on_create = create
    result = hosts.run()
    assert result.ok and met["b"] == 8 and 1 <= met["a"] <= 2
    assert [line["host"] for line in events(result, "host.lost")] == ["a"]


def test_what_all_hosts_lack_ends_the_run_at_once(hosts: Bench) -> None:
    def create(request: SandboxRequest) -> None:
        raise GpusMissing(f"host {request.host} has no GPUs")

    hosts.backend.on_create = create
    began = time.monotonic()
    with pytest.raises(GpusMissing, match="has no GPUs"):
        hosts.run()
    assert time.monotonic() - began < 20 and hosts.backend.alive == 0


def test_with_one_host_a_full_disk_ends_the_run(bench: Bench) -> None:
    def create(request: SandboxRequest) -> None:
        raise OutOfDisk("no space left on device")

    bench.backend.on_create = create
    with pytest.raises(OutOfDisk):
        bench.run(retries=2)


def test_a_job_that_is_cancelled_while_it_waits_for_another_host_ends_with_what_it_came_to(hosts: Bench) -> None:
    plan = hosts.plan()
    first = plan.jobs[plan.order[0]].job_id

    def create(request: SandboxRequest) -> None:
        if not hosts.backend.away:
            request_cancellation(RunLayout(hosts.runs()[0]), [request.labels["trace-bench.job"]])
            hosts.backend.away = dict.fromkeys("ab", time.monotonic() + 0.3)

    hosts.backend.script = lambda job_id, number: Script(ends="hangs" if (job_id, number) == (first, 1) else "done")
    hosts.backend.on_create = create
    result = hosts.run(max_workers=1)
    assert [(row.job_id, row.status) for row in result.rows if row.status != "ok"] == [(first, "failed")]
    assert len(events(result, "job.start")) == len(events(result, "job.end")) == 8


class WithImages(SimulatedBackend):
    """Each host is given an image first, and that takes its time."""

    given: set[str]

    def create(self, request: SandboxRequest) -> SimulatedSandbox:
        self.bring_image(request.image, request.host)
        return super().create(request)

    def bring_image(self, image: str, host: str) -> None:
        if host not in self.given:
            time.sleep(0.5)
            self.given.add(host)

    def unreachable(self) -> dict[str, str]:
        return {}

    def supply_image(self, image: str, supply: Any) -> None: ...

    def stop_supplying_when(self, stopped: Any) -> None: ...

    def first_engine(self) -> None: ...


def test_what_a_host_waits_for_its_image_is_no_time_of_the_job(hosts: Bench) -> None:
    hosts.backend = WithImages(several=hosts.backend.several)
    hosts.backend.given = set()
    began = time.monotonic()
    rows = hosts.run(tasks=TASKS[:1], seeds=[1]).rows
    assert time.monotonic() - began > 0.5
    assert rows and all(row.status == "ok" and row.time_seconds < 0.4 for row in rows)


@contextlib.contextmanager
def somebody_else_on(scope: str) -> Iterator[None]:
    """Another controller, with a job on the machine."""
    lease = Leases(scope).take()
    assert lease is not None
    try:
        yield
    finally:
        lease.release()


def test_a_run_that_could_place_nothing_more_keeps_no_other_controller_waiting(bench: Bench) -> None:
    """It waits for a quiet host, and what it runs on the other one is as much as it may run at a time."""
    bench.backend.several = (Host("a", cpus=4, scope="a", labels=frozenset("a")), Host("b", cpus=4, scope="b"))
    tasks = [{"id": TASKS[0], "sandbox": {"exclusive": True, "labels": ["a"]}}, TASKS[1]]
    bench.backend.script = lambda job_id, number: Script(seconds=0.8)
    let_in: list[bool] = []

    def look() -> None:
        lease = Leases("a").take()
        let_in.append(lease is not None)
        if lease is not None:
            lease.release()

    with somebody_else_on("a"):
        wish: list[str] = []
        threading.Timer(0.5, look).start()
        threading.Timer(0.7, lambda: wish.append("interrupted")).start()
        with pytest.raises(Interrupted):
            bench.run(tasks=tasks, max_workers=1, stop_wanted=lambda: wish[0] if wish else None)
    assert let_in == [True]


def test_a_run_that_ends_with_an_error_leaves_no_mark_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.backend.several = (Host("a", cpus=4, scope="a"),)

    def breaks(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(RunReporter, "job_queued", breaks)
    with somebody_else_on("a"):
        with pytest.raises(OSError, match="full"):
            bench.run(sandbox={"exclusive": True})
        lease = Leases("a").take()
        assert lease is not None
        lease.release()


def test_a_job_that_waits_for_the_end_of_somebody_else_s_quiet_can_be_cancelled(bench: Bench) -> None:
    bench.backend.several = (Host("a", cpus=4, scope="a"),)
    quiet = Leases("a").take(exclusive=True)
    assert quiet is not None
    threading.Timer(0.3, lambda: request_cancellation(RunLayout(bench.runs()[0]), [first])).start()
    alone = {"tasks": TASKS[:1], "trainers": ["PrioritySearch"]}
    first = bench.plan(**alone).jobs[0].job_id
    release = threading.Timer(5, quiet.release)  # not before
    release.start()
    (row,) = bench.run(**alone).rows
    assert (row.status, row.feedback) == ("skipped", "cancelled") and release.is_alive()
    release.cancel()
    quiet.release()


def test_the_plan_says_that_jobs_run_one_at_a_time_where_nobody_has_said_how_many(bench: Bench) -> None:
    def width_notes(**config: Any) -> list[str]:
        loaded = bench.load(**config)
        given = {key: value for key, value in loaded if key in loaded.model_fields_set and key != "max_workers"}
        bare = RunConfig.model_construct(_fields_set=set(given), **dict(loaded))
        docker, modal = SimulatedBackend(), SimulatedBackend(name="modal", traits=Traits(is_service=True))
        return worker_warnings(bare, docker, 4) + worker_warnings(bare, modal, 4) + worker_warnings(loaded, modal, 4)

    assert width_notes() == ["max_workers is not given: jobs run one at a time, on Modal too"]
    hosts = {"hosts": [{"context": "a"}, {"context": "b"}]}
    assert len(width_notes(docker=hosts)) == 2


# ------------------------------------------------------------------------------------------ a host that takes no more


def refusing(times: int) -> Callable[[SandboxRequest], None]:
    left = iter(range(times))

    def create(request: SandboxRequest) -> None:
        if next(left, None) is not None:
            raise RateLimited("too many sandboxes in too short a time")

    return create


@pytest.fixture
def hasty(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(starting, "FIRST_HOLD", 0.02)
    monkeypatch.setattr(starting, "LOOK", 0.02)
    return bench


def test_a_refusal_is_no_attempt(hasty: Bench) -> None:
    hasty.backend.on_create = refusing(6)
    result = hasty.run(retries=0)
    assert result.ok
    assert all(attempts(result.layout, row.job_id) == [(1, "ok")] for row in result.rows)
    assert [p.name for job in result.layout.job_dirs() for p in job.attempts.iterdir()] == ["1"] * 4
    assert len(events(result, "job.start")) == 4 and not events(result, "job.retry")


def test_refusals_that_last_are_failures_of_the_sandbox(hasty: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PATIENCE", 0.1)
    hasty.backend.on_create = refusing(10**6)
    result = hasty.run(retries=0, max_workers=1, tasks=["internal:numeric_param"])
    assert {(row.failure_boundary, row.failure_kind) for row in result.rows} == {("sandbox", "rate_limited")}


def test_who_waits_to_be_let_in_ends_at_once_and_was_never_there(hasty: Bench) -> None:
    hasty.backend.on_create = refusing(10**6)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        hasty.run(stop_wanted=lambda: "interrupted" if time.monotonic() - began > 0.5 else None)
    assert time.monotonic() - began < 3
    (run,) = hasty.runs()
    assert not list(run.glob("jobs/*/attempts/*")) and not list(run.glob("jobs/*/job_meta.json"))
    hasty.backend.on_create = lambda request: None
    assert hasty.run().ok


def test_the_time_of_the_run_ends_who_waits_to_be_let_in(hasty: Bench) -> None:
    hasty.backend.on_create = refusing(10**6)
    result = hasty.run(budget={"run": {"seconds": 0.4}})
    assert {(row.status, row.feedback) for row in result.rows} == {
        ("skipped", "the run's budget of 0.4 seconds is used up")
    }


def test_creations_keep_the_pace_of_the_host(bench: Bench) -> None:
    bench.backend.several = (Host("modal", slots=100, starting=20, creations_per_second=20.0),)
    times: list[float] = []
    bench.backend.on_create = lambda request: times.append(time.monotonic())
    assert bench.run(seeds=[1, 2], max_workers=8).ok
    assert len(times) == 8 and times[-1] - times[0] > 0.3


def test_a_job_that_is_not_let_in_again_keeps_what_its_last_attempt_came_to(hasty: Bench) -> None:
    alone = {"tasks": ["internal:numeric_param"], "trainers": ["PrioritySearch"], "retries": 0}
    hasty.backend.script = lambda job_id, number: Script(failure="sandbox")
    first = hasty.run(**alone)
    before = fingerprints_of_files(first.layout.jobs)
    assert any(path.endswith("best_state.yaml") for path in before)
    hasty.backend.on_create = refusing(10**6)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        hasty.run(**alone, stop_wanted=lambda: "interrupted" if time.monotonic() - began > 0.6 else None)
    after = fingerprints_of_files(first.layout.jobs)
    assert {path: content for path, (_, content) in after.items()} == {path: c for path, (_, c) in before.items()}


# ------------------------------------------------------------------------------------------------ an engine that hangs


class Hanging:
    """An engine that takes its time to say nothing."""

    def __init__(self) -> None:
        self.asked = 0

    def find(self, labels: object) -> list[object]:
        self.asked += 1
        time.sleep(0.2)
        raise EngineGone("no answer in time")


def test_jobs_that_wait_together_for_an_engine_that_hangs_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "INTERVAL", 0.5)
    wish: list[str] = []
    engine = Hanging()
    waiting = outage.EngineOutage(cast(Any, engine), Cancellation(lambda: wish[0] if wish else None))

    def wait() -> None:
        with contextlib.suppress(Interrupted):
            waiting.wait(EngineGone("it is gone"), "run", "job")

    jobs = [threading.Thread(target=wait, daemon=True) for _ in range(10)]
    for job in jobs:
        job.start()
    time.sleep(0.1)
    wish.append("interrupted")
    began = time.monotonic()
    for job in jobs:
        job.join()
    assert time.monotonic() - began < 1.0 and engine.asked == 1


def test_a_host_that_is_back_after_the_end_of_the_run_is_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "INTERVAL", 0.01)
    asked, answers = threading.Event(), threading.Event()

    def hosts() -> list[Host]:
        asked.set()
        answers.wait(5)
        return [Host("a"), Host("b")]

    told: list[str] = []
    backend = SimpleNamespace(hosts=hosts, find=lambda labels: [])
    allocator = SimpleNamespace(mark_lost=lambda host: None, mark_back=told.append)
    lost = outage.LostHosts(cast(Any, backend), cast(Any, allocator), "run", on_back=told.append)
    lost.lost("a", "job", EngineGone("it is gone"))
    assert asked.wait(5)
    lost.close()
    answers.set()
    thread = lost._thread
    assert thread is not None
    thread.join(5)
    assert not told and not thread.is_alive()
