"""Places with leases: what jobs have for themselves, among controllers; who waits, and for what; what no host has."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.execution.bench import TASKS, Bench
from tests.execution.supervisor import Script
from tests.scheduling.test_allocation import a_job
from trace_bench.config import RunConfig, parse_config
from trace_bench.config.models import SandboxConfig
from trace_bench.errors import ConfigError, SandboxError
from trace_bench.planning.requirements import check_sandboxes, host_check, unmet_requirement
from trace_bench.sandbox import leases
from trace_bench.sandbox.base import Host, Sandbox
from trace_bench.sandbox.labels import CPUSET, DEVICES, EXCLUSIVE
from trace_bench.sandbox.leases import Taken
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE
from trace_bench.scheduling import allocation as allocation_module
from trace_bench.scheduling import hosts
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.queue import JobQueue

TWO = Host(gpus=("0", "1"), cpus=2, scope="m")


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCK_DIR_VARIABLE, str(tmp_path))


def test_two_controllers_share_the_devices_of_a_host() -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    queues = [JobQueue([a_job(gpus=1) for _ in range(2)]) for _ in range(2)]
    first, second = one.allocate_next(queues[0]), other.allocate_next(queues[1])
    assert first is not None and second is not None
    assert {*first[1].lease.devices, *second[1].lease.devices} == {"0", "1"}
    assert one.allocate_next(queues[0]) is None and other.allocate_next(queues[1]) is None
    assert one.waiting and other.waiting
    other.release(second[1])
    third = one.allocate_next(queues[0])
    assert third is not None and third[1].lease.devices == second[1].lease.devices
    assert not one.waiting


def test_gpus_that_were_lost_are_given_to_nobody() -> None:
    allocator = Allocator([TWO])
    queue = JobQueue([a_job(gpus=1) for _ in range(3)])
    first = allocator.allocate_next(queue)
    assert first is not None
    allocator.withdraw_gpus(first[1])
    allocator.release(first[1])
    second = allocator.allocate_next(queue)
    assert second is not None and second[1].lease.devices != first[1].lease.devices
    allocator.withdraw_gpus(second[1])
    allocator.release(second[1])
    (left,) = queue
    assert allocator.allocate_next(queue) is None
    said = allocator.why_impossible(left)
    assert said == "no host can run it: the only host has no GPUs besides 0, 1, which no longer answered"


def test_a_job_that_loses_its_gpu_goes_on_with_another_one(bench: Bench) -> None:
    bench.backend.several = [TWO]
    lost = Script(failure="sandbox", kind="device_lost")
    bench.backend.script = lambda job_id, number: lost if number == 1 else Script()
    given: list[tuple[str, ...]] = []
    bench.backend.on_create = lambda request: given.append(request.gpu_names)
    alone = {"tasks": [TASKS[0]], "trainers": ["NoOp"], "sandbox": {"gpus": 1}, "retries": 1}
    result = bench.run(**alone)
    assert [row.status for row in result.rows] == ["ok"]
    assert len(given) == 2 and given[0] != given[1]
    events = [json.loads(line) for line in result.layout.events.read_text().splitlines()]
    withdrawn = [event["devices"] for event in events if event["event"] == "gpus.withdrawn"]
    assert withdrawn == [list(given[0])]


def test_a_run_ends_once_all_its_gpus_are_lost(bench: Bench) -> None:
    bench.backend.several = [TWO]
    bench.backend.script = lambda job_id, number: Script(failure="sandbox", kind="device_lost")
    result = bench.run(trainers=["NoOp"], sandbox={"gpus": 1}, retries=2, max_workers=1, seeds=[1, 2])
    kinds = {row.failure_kind for row in result.rows}
    assert kinds == {"device_lost", "not_executed"} and len(result.rows) == 4
    assert any("no longer answered" in (row.feedback or "") for row in result.rows)


def test_a_waiting_exclusive_job_gets_its_turn_among_controllers_and_nothing_passes_it() -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    busy = other.allocate_next(JobQueue([a_job()]))
    assert busy is not None
    queue = JobQueue([a_job(exclusive=True), a_job()])
    assert one.allocate_next(queue) is None and one.waiting
    assert other.allocate_next(JobQueue([a_job()])) is None, "nobody overtakes it"
    other.release(busy[1])
    found = one.allocate_next(queue)
    assert found is not None and found[1].lease.exclusive and not one.waiting
    assert one.allocate_next(queue) is None and other.allocate_next(JobQueue([a_job()])) is None
    one.release(found[1])
    assert one.allocate_next(queue) is not None and other.allocate_next(JobQueue([a_job()])) is not None


@pytest.mark.parametrize("waiting", [{}, {"pinned": True}, {"gpus": 2}])
def test_a_queue_of_exclusive_jobs_lets_another_controller_s_jobs_between(
    waiting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    queue = JobQueue([a_job(exclusive=True) for _ in range(4)])

    def has_its_turn() -> Allocation:
        found = one.allocate_next(queue)
        assert found is not None
        return found[1]

    quiet = has_its_turn()
    one.release(quiet)
    quiet = has_its_turn()  # nobody waits
    behind = JobQueue([a_job(**waiting)])
    assert other.allocate_next(behind) is None and other.waiting
    one.release(quiet)
    assert one.allocate_next(queue) is None
    found = other.allocate_next(behind)
    assert found is not None
    assert one.allocate_next(queue) is None, "it runs"
    other.release(found[1])
    other.stop_waiting()
    quiet = has_its_turn()
    assert other.allocate_next(JobQueue([a_job(**waiting)])) is None and other.waiting
    one.release(quiet)
    assert one.allocate_next(queue) is None
    later = time.monotonic() + leases.GRACE
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert one.allocate_next(queue) is not None, "who does not take its turn is not waited for"


def test_the_mark_of_a_job_that_no_longer_waits_is_taken_away() -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    busy = other.allocate_next(JobQueue([a_job()]))
    assert busy is not None
    queue = JobQueue([a_job(exclusive=True)])
    assert one.allocate_next(queue) is None and one.waiting
    one.stop_waiting()
    assert not one.waiting and other.allocate_next(JobQueue([a_job()])) is not None
    assert one.allocate_next(queue) is None and one.waiting
    queue.remove(queue.heads()[0])
    assert one.allocate_next(queue) is None and not one.waiting, "it was cancelled, say"
    assert other.allocate_next(JobQueue([a_job()])) is not None


def test_the_mark_stays_while_one_of_several_jobs_needs_it() -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    gpus, cores = (
        other.allocate_next(JobQueue([a_job(gpus=2)])),
        other.allocate_next(JobQueue([a_job(pinned=True, cpus=2)])),
    )
    assert gpus is not None and cores is not None
    queue = JobQueue([a_job(gpus=2), a_job(pinned=True, cpus=2)])
    assert one.allocate_next(queue) is None and one.waiting
    other.release(cores[1])
    found = one.allocate_next(queue)
    assert found is not None and found[1].lease.cpuset == (0, 1)
    assert one.waiting and other.allocate_next(JobQueue([a_job(gpus=1)])) is None
    other.release(gpus[1])
    assert other.allocate_next(JobQueue([a_job(gpus=1)])) is None
    found = one.allocate_next(queue)
    assert found is not None and found[1].lease.devices == ("0", "1")


def test_who_waits_for_room_alone_holds_up_no_other_controller() -> None:
    host = Host(gpus=("0", "1"), cpus=2, slots=1, scope="m")
    one, other = Allocator([host]), Allocator([host])
    mine = one.allocate_next(JobQueue([a_job(gpus=1)]))
    assert mine is not None
    assert one.allocate_next(JobQueue([a_job(gpus=1)])) is None and not one.waiting
    assert other.allocate_next(JobQueue([a_job(gpus=1)])) is not None


KINDS: list[dict[str, Any]] = [
    {}, {}, {"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"pinned": True}, {"pinned": True, "cpus": 2}, {"exclusive": True},
    {"gpus": 2, "pinned": True}, {"gpus": 1, "exclusive": True}, {"labels": ("b",)}, {"labels": ("b",), "gpus": 2},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_controllers_of_any_mixture_of_jobs_come_to_an_end_and_never_share_a_lease(seed: int) -> None:
    """Three of them, two hosts; jobs end at random. Nobody waits for ever, and nobody for somebody who waits."""
    draw = random.Random(seed)
    hosts = [
        Host("a", gpus=("0", "1"), cpus=2, scope="a"),
        Host("b", gpus=("0", "1"), cpus=2, scope="b", labels=frozenset("b"), slots=3),
    ]
    controllers = [Allocator(hosts) for _ in range(3)]
    queues = [JobQueue([a_job(memory=64 << 20, **draw.choice(KINDS)) for _ in range(30)]) for _ in controllers]
    running: list[tuple[int, Allocation]] = []
    for _ in range(20_000):
        who = draw.randrange(3)
        if running and draw.random() < 0.3:
            owner, allocation = running.pop(draw.randrange(len(running)))
            controllers[owner].release(allocation)
        elif queues[who] and (found := controllers[who].allocate_next(queues[who])) is not None:
            allocation = found[1]
            here = [other for _, other in running if other.host.name == allocation.host.name]
            assert not any(set(allocation.lease.devices) & set(other.lease.devices) for other in here)
            assert not any(set(allocation.lease.cpuset) & set(other.lease.cpuset) for other in here)
            assert not here or not any(other.lease.exclusive for other in [*here, allocation])
            running.append((who, allocation))
        elif not queues[who]:
            controllers[who].stop_waiting()  # as a run does
        if not running and not any(queues):
            break
    assert [len(queue) for queue in queues] == [0, 0, 0] and not running


def test_hosts_with_known_gpus_go_before_those_of_which_nobody_can_tell() -> None:
    unknown, known = Host("unknown", cpus=2, scope="u"), Host("known", cpus=2, gpus=("0",), scope="k")
    allocator, queue = Allocator([unknown, known]), JobQueue([a_job(gpus=1), a_job(gpus=1)])
    found = allocator.allocate_next(queue)
    assert found is not None and (found[1].host.name, found[1].lease.devices) == ("known", ("0",))
    assert allocator.allocate_next(queue) is None, "it waits for a GPU that is there"
    alone = Allocator([unknown]).allocate_next(queue)
    assert alone is not None and alone[1].lease.devices == (), "the engine picks"


def a_sandbox(**labels: str) -> Sandbox:
    return cast(Sandbox, SimpleNamespace(host="", labels=labels))


def test_an_adopted_sandbox_brings_its_lease() -> None:
    one, other = Allocator([TWO]), Allocator([TWO])
    adopted = one.adopt(a_job(gpus=1, pinned=True), a_sandbox(**{DEVICES: "0", CPUSET: "1"}))
    assert adopted.lease.whole and (adopted.lease.devices, adopted.lease.cpuset) == (("0",), (1,))
    found = other.allocate_next(JobQueue([a_job(gpus=1, pinned=True)]))
    assert found is not None and (found[1].lease.devices, found[1].lease.cpuset) == (("1",), (0,))
    one.release(adopted)
    other.release(found[1])
    quiet = one.adopt(a_job(exclusive=True), a_sandbox(**{EXCLUSIVE: "1"}))
    assert other.allocate_next(JobQueue([a_job()])) is None
    one.release(quiet)
    assert other.allocate_next(JobQueue([a_job()])) is not None


def test_what_sandboxes_hold_is_heard_of_each_host() -> None:
    hosts = [Host("a", gpus=("0",), cpus=1, scope="a"), Host("b", gpus=("0",), cpus=1, scope="b")]
    allocator = Allocator(hosts, taken=lambda name: Taken(devices=frozenset("0" if name == "a" else "")))
    found = allocator.allocate_next(JobQueue([a_job(gpus=1)]))
    assert found is not None and found[1].host.name == "b"


def test_a_host_that_does_not_say_what_it_holds_is_left_alone_and_ends_the_run_only_if_none_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = {"a"}

    def taken(name: str) -> Taken:
        if name in silent:
            raise SandboxError("gone")
        return Taken()

    allocator = Allocator([Host("a", cpus=1, scope="a"), Host("b", cpus=1, scope="b")], taken=taken)
    found = allocator.allocate_next(JobQueue([a_job()]))
    assert found is not None and found[1].host.name == "b"
    monkeypatch.setattr(hosts, "PATIENCE", -1.0)
    monkeypatch.setattr(hosts, "LONGEST_REST", 0.0)
    again = allocator.allocate_next(JobQueue([a_job()]))
    assert again is not None and again[1].host.name == "b"
    for allocation in (found[1], again[1]):
        allocator.release(allocation)
    silent.add("b")
    with pytest.raises(SandboxError, match="gone"):
        allocator.allocate_next(JobQueue([a_job()]))
    silent.clear()
    assert allocator.allocate_next(JobQueue([a_job()])) is not None


def test_a_host_that_takes_long_to_say_nothing_keeps_others_waiting_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)  # only this test moves it
    for module in (allocation_module, hosts):
        monkeypatch.setattr(module, "time", clock)

    def taken(name: str) -> Taken:
        asked.append(name)
        if name == "a":
            clock.now += 0.05
            raise SandboxError("no answer in time")
        return Taken()

    monkeypatch.setattr(hosts, "SHORTEST_REST", 0.0)
    allocator = Allocator([Host("a", cpus=8, scope="a"), Host("b", cpus=8, scope="b")], taken=taken)
    queue = JobQueue([a_job() for _ in range(8)])
    found = [allocator.allocate_next(queue) for _ in range(7)]
    assert {one[1].host.name for one in found if one is not None} == {"b"} and asked.count("a") == 1
    clock.now += 0.51
    allocator.allocate_next(queue)
    assert asked.count("a") == 2, "it may be back: ten times as long as it took it is left alone"


def test_a_sandbox_on_a_host_that_has_stopped_answering_takes_no_other_host_s_place() -> None:
    allocator = Allocator([Host("b", slots=1, cpus=1, scope="b")])
    allocation = allocator.adopt(a_job(), cast(Sandbox, SimpleNamespace(host="a", labels={EXCLUSIVE: "1"})))
    assert allocation.host.name == "a" and not allocator.has_one_host
    found = allocator.allocate_next(JobQueue([a_job()]))
    assert found is not None and found[1].host.name == "b"
    allocator.mark_lost("a")
    allocator.mark_back("a")
    allocator.release(allocation)
    assert allocator.allocate_next(JobQueue([a_job()])) is None, "nothing is known of it, so nothing is placed there"


# -- what no host has -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "asked", "reason"),
    [
        (TWO, {"gpus": 2, "pinned": True, "cpus": 2, "exclusive": True}, None),
        (TWO, {"gpus": 3}, "has 2 GPUs, not 3"),
        (Host(gpus=("0",)), {"gpus": 2}, "has 1 GPU, not 2"),
        (Host(gpus=()), {"gpus": 1}, "has no GPUs"),
        (Host(gpus=None), {"gpus": 9}, None),
        (TWO, {"pinned": True, "cpus": 3}, "has 2 cores, of which 3 cannot be pinned"),
        (Host(cpus=None), {"pinned": True}, "is no machine that a job could have cores of"),
        (Host(cpus=None), {"exclusive": True}, "is no machine that a job could have to itself"),
        (TWO, {"labels": ("a100",)}, "has no label 'a100'"),
    ],
)
def test_why_a_host_can_never_run_a_job(host: Host, asked: dict[str, Any], reason: str | None) -> None:
    assert unmet_requirement(host, SandboxConfig(**asked)) == reason


def a_config(**content: Any) -> RunConfig:
    tasks = [{"id": "internal:numeric_param", "sandbox": {"gpus": 2}}, "internal:non_trainable"]
    return parse_config({"tasks": tasks, "trainers": ["NoOp"], **content})


def test_a_job_that_no_host_can_run_is_told_with_what_each_host_lacks() -> None:
    config = a_config()
    first, second = (
        SimpleNamespace(task_id=task.id, sandbox=task.sandbox.over(config.sandbox) if task.sandbox else config.sandbox)
        for task in config.tasks
    )
    check: Any = host_check(config, [Host("small", gpus=("0",)), Host("plain", gpus=())])
    said = str(check(first))
    assert "no host can run internal:numeric_param: small has 1 GPU, not 2; plain has no GPUs" in said
    assert "tasks" in said and check(second) is None
    check = host_check(config, [Host("plain", gpus=()), Host("large", gpus=("0", "1"))])
    assert check(first) is None


def test_part_of_a_core_cannot_be_pinned_wherever_it_is_said() -> None:
    config = a_config(sandbox={"cpus": 1.5}, tasks=[{"id": "internal:numeric_param", "sandbox": {"pinned": True}}])
    with pytest.raises(ConfigError, match=r"sandbox\.cpus.* is 1\.5, but pinned gives whole cores"):
        check_sandboxes(config)
    check_sandboxes(a_config(sandbox={"cpus": 2, "pinned": True}))
