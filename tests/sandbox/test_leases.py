"""Two leases never overlap, dead holders hold nothing, what a sandbox holds is not given away, and everybody gets a
turn."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.errors import SandboxError
from trace_bench.sandbox.labels import CPUSET, DEVICES, EXCLUSIVE
from trace_bench.sandbox.leases import Lease, Leases, Taken, cores_in, devices_in

GPUS = ("0", "1", "2", "3")

WORKER = """
import json, os, random, sys, time
from pathlib import Path
from trace_bench.sandbox.leases import Leases
folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
leases = Leases("machine", folder)
held = []
log = os.open(folder / "log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(what, number, lease):
    line = json.dumps([what, f"{seed}.{number}", lease.devices, lease.cpuset, lease.exclusive])
    os.write(log, (line + "\\n").encode())
number, wish = 0, None
while number < rounds or held:
    if held and (number >= rounds or draw.random() < 0.5):
        n, lease = held.pop(draw.randrange(len(held)))
        say("end", n, lease)
        lease.release()
        continue
    if wish is None:  # kept until it is granted: what is hard to have would else be given up, and never tried
        wish = draw.random() < 0.15, draw.choice((0, 1, 1, 2, 4)), draw.choice((0, 0, 1, 2))
    alone, gpus, cores = wish
    lease = leases.take(devices=("0", "1", "2", "3"), gpus=gpus, cores=cores, of_cores=range(3), exclusive=alone)
    if lease is None:
        if not held:
            leases.wait(exclusive=alone)
        time.sleep(draw.random() / 1000)
        continue
    leases.rest()
    number, wish = number + 1, None
    say("begin", number, lease)
    held.append((number, lease))
"""

HOLD = """
import sys
from pathlib import Path
from trace_bench.sandbox.leases import Leases
lease = Leases("machine", Path(sys.argv[1])).take(
    devices=("0", "1"), gpus=int(sys.argv[2]), cores=1, of_cores=range(2), exclusive=sys.argv[3] == "exclusive")
print(lease.devices, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, gpus: int = 1, how: str = "shared") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lease of so many GPUs and a core."""
    command = [sys.executable, "-c", HOLD, str(folder), str(gpus), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def check_log(lines: list[str]) -> Counter[str]:
    """Nothing in the log of `WORKER` is held twice at a time; counts what was held."""
    there: dict[str, tuple[set[str], bool]] = {}
    seen: Counter[str] = Counter()
    for line in lines:
        what, who, devices, cpuset, exclusive = json.loads(line)
        if what == "end":
            del there[who]
            continue
        mine = {f"gpu {d}" for d in devices} | {f"core {c}" for c in cpuset}
        for other, (theirs, alone) in there.items():
            assert not mine & theirs, (who, other)
            assert not alone and not exclusive, (who, other)
        there[who] = (mine, exclusive)
        seen["exclusive" if exclusive else f"{len(devices)} GPUs"] += 1
    assert not there
    return seen


def test_leases_of_several_processes_never_overlap(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [subprocess.Popen([*command, str(seed), "30"]) for seed in range(3)]
    assert [worker.wait(60) for worker in workers] == [0] * 3
    seen = check_log((tmp_path / "log.txt").read_text().splitlines())
    assert sum(seen.values()) == 90 and min(seen["exclusive"], seen["4 GPUs"]) > 1


def test_leases_of_several_threads_never_overlap(tmp_path: Path) -> None:
    shared, log, writing = [Leases("machine", tmp_path) for _ in range(2)], [], threading.Lock()

    def work(number: int) -> None:
        draw, leases = random.Random(number), shared[number % 2]
        for turn in range(40):
            alone, gpus, cores = draw.random() < 0.1, draw.choice((0, 1, 2)), draw.choice((0, 1))
            lease = None
            while lease is None:
                lease = leases.take(devices=GPUS, gpus=gpus, cores=cores, of_cores=range(2), exclusive=alone)
                if lease is None:
                    time.sleep(draw.random() / 2000)
            said = [f"{number}.{turn}", lease.devices, lease.cpuset, lease.exclusive]
            with writing:
                log.append(json.dumps(["begin", *said]))
            time.sleep(draw.random() / 5000)
            with writing:
                log.append(json.dumps(["end", *said]))
            lease.release()
            lease.release()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sum(check_log(log).values()) == 240


DEMAND = st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans())


@given(
    st.lists(st.tuples(st.integers(0, 1), DEMAND | st.integers(0, 5)), max_size=25),
    st.sets(st.sampled_from(GPUS)),
    st.sets(st.integers(0, 1)),
)
def test_any_sequence_of_demands_gets_what_is_free_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, tuple[int, int, bool] | int]],
    devices: set[str],
    cores: set[int],
) -> None:
    """Two controllers; `devices` and `cores` are those of a sandbox that nobody holds a lock for."""
    folder = tmp_path_factory.mktemp("locks")
    controllers = [Leases("machine", folder), Leases("machine", folder)]
    orphan = Taken(frozenset(devices), frozenset(cores), anything=bool(devices or cores))
    held: list[Lease] = []
    try:
        for who, step in steps:
            if isinstance(step, int):
                if held:
                    held.pop(step % len(held)).release()
                continue
            gpus, count, alone = step
            lease = controllers[who].take(
                devices=GPUS, gpus=gpus, cores=count, of_cores=range(2), exclusive=alone, taken=lambda: orphan
            )
            free = set(GPUS) - devices - {d for other in held for d in other.devices}
            left = set(range(2)) - cores - {c for other in held for c in other.cpuset}
            quiet = not any(other.exclusive for other in held)
            possible = len(free) >= gpus and len(left) >= count and quiet
            if alone:
                possible = possible and not held and not orphan.anything
            assert (lease is not None) == possible
            if lease is not None:
                assert set(lease.devices) <= free and len(lease.devices) == gpus
                assert set(lease.cpuset) <= left and len(lease.cpuset) == count
                held.append(lease)
    finally:
        for lease in held:
            lease.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    leases = Leases("machine", tmp_path)
    with holder(tmp_path, gpus=2) as process:
        assert leases.take(devices=("0", "1"), gpus=1) is None
        assert leases.take(cores=2, of_cores=range(2)) is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = leases.take(devices=("0", "1"), gpus=2, cores=2, of_cores=range(2))
    assert found is not None and found.devices == ("0", "1") and found.cpuset == (0, 1)
    found.release()


def test_an_exclusive_lease_is_alone_on_its_machine_and_nowhere_else(tmp_path: Path) -> None:
    leases, others = Leases("machine", tmp_path), Leases("another", tmp_path)
    with holder(tmp_path, how="exclusive") as process:
        assert leases.take() is None, "an ordinary job waits, too"
        elsewhere = others.take()
        assert elsewhere is not None
        process.kill()
        process.wait()
        ordinary = leases.take()
    assert ordinary is not None and leases.take(exclusive=True) is None
    ordinary.release()
    alone = leases.take(exclusive=True)
    assert alone is not None and leases.take() is None
    alone.release()
    elsewhere.release()


@pytest.mark.parametrize(("gpus", "alone"), [(0, True), (2, False)])
def test_who_waits_is_not_overtaken_by_other_controllers(tmp_path: Path, gpus: int, alone: bool) -> None:
    """Two others hand the machine to each other so that it is never free."""
    devices = ("0", "1")
    waiting = Leases("machine", tmp_path)
    others = [Leases("machine", tmp_path) for _ in range(2)]

    def turn(who: int) -> None:
        if (mine := held[who]) is not None:
            mine.release()
        held[who] = others[who].take(devices=devices, gpus=1)

    held = [other.take(devices=devices, gpus=1) for other in others]
    for number in range(4):
        assert waiting.take(devices=devices, gpus=gpus, exclusive=alone) is None
        turn(number % 2)
        assert None not in held, "nobody waits yet"
    waiting.wait(exclusive=alone)
    turn(0)
    assert waiting.take(devices=devices, gpus=gpus, exclusive=alone) is None
    turn(1)
    assert held == [None, None]
    ordinary = others[0].take()
    assert (ordinary is None) == alone, "who wants neither GPU nor core need not wait for them"
    if ordinary is not None:
        ordinary.release()
    lease = waiting.take(devices=devices, gpus=gpus, exclusive=alone)
    assert lease is not None
    lease.release()
    turn(0)
    assert held == [None, None], "the mark stands until it is taken away"
    waiting.rest()
    turn(0)
    assert held[0] is not None
    held[0].release()


def test_waiters_of_many_kinds_all_get_their_turn(tmp_path: Path) -> None:
    """Six controllers, each with demands that exclude those of most others, and none that gives up."""
    demands = [(0, 0, True), (0, 0, True), (4, 0, False), (2, 2, False), (1, 0, False), (0, 2, False)]
    turns: Counter[int] = Counter()
    end = time.monotonic() + 20

    def work(number: int) -> None:
        leases, (gpus, cores, alone) = Leases("machine", tmp_path), demands[number]
        while turns[number] < 8 and time.monotonic() < end:
            lease = leases.take(devices=GPUS, gpus=gpus, cores=cores, of_cores=range(2), exclusive=alone)
            if lease is None:
                leases.wait(exclusive=alone)
                time.sleep(0.002)
                continue
            leases.rest()
            time.sleep(0.002)
            turns[number] += 1
            lease.release()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert turns == Counter(dict.fromkeys(range(6), 8))


# -- what sandboxes hold ----------------------------------------------------------------------------------------------


def test_what_a_sandbox_without_a_controller_holds_is_not_given_away(tmp_path: Path) -> None:
    orphan = Taken.by([{DEVICES: "nvidia.com/gpu=0,1", CPUSET: "0"}, {}])
    assert orphan == Taken(frozenset({"nvidia.com/gpu=0", "1"}), frozenset({0}), anything=True)
    leases = Leases("machine", tmp_path)
    found = leases.take(devices=GPUS, gpus=2, cores=1, of_cores=range(2), taken=lambda: orphan)
    assert found is not None and found.devices == ("2", "3") and found.cpuset == (1,)
    assert leases.take(devices=GPUS, gpus=1, taken=lambda: orphan) is None
    found.release()
    assert leases.take(exclusive=True, taken=lambda: orphan) is None
    alone = Taken.by([{EXCLUSIVE: "1"}])
    assert leases.take(taken=lambda: alone) is None, "an ordinary job leaves a quiet machine alone"


def test_sandboxes_are_asked_for_once_the_locks_are_held(tmp_path: Path) -> None:
    """An answer from before could be too old: its owner may have made a sandbox since, and died."""
    leases, other = Leases("machine", tmp_path), Leases("machine", tmp_path)
    asked: list[Lease | None] = []

    def taken() -> Taken:
        asked.append(other.take(devices=("0",), gpus=1))
        return Taken()

    found = leases.take(devices=("0",), gpus=1, taken=taken)
    assert found is not None and asked == [None]
    beside = leases.take(taken=taken)
    assert beside is not None and len(asked) == 1, "who is there already need not ask whether somebody is alone"
    assert leases.take(devices=("0",), gpus=1, taken=taken) is None and len(asked) == 1, "nor who gets nothing anyway"
    for lease in (found, beside):
        lease.release()


def test_a_host_that_does_not_answer_costs_no_lease(tmp_path: Path) -> None:
    leases, other = Leases("machine", tmp_path), Leases("machine", tmp_path)

    def silent() -> Taken:
        raise SandboxError("gone")

    with pytest.raises(SandboxError):
        leases.take(devices=GPUS, gpus=4, exclusive=True, taken=silent)
    found = other.take(devices=GPUS, gpus=4, exclusive=True)
    assert found is not None
    found.release()


def test_an_adopted_sandbox_keeps_what_its_labels_say(tmp_path: Path) -> None:
    labels = {DEVICES: "nvidia.com/gpu=1", CPUSET: "1"}
    leases, other = Leases("machine", tmp_path), Leases("machine", tmp_path)
    adopted = leases.adopt(devices_in(labels), cores_in(labels), exclusive=False)
    assert adopted.whole and adopted.devices == ("nvidia.com/gpu=1",) and adopted.cpuset == (1,)
    found = other.take(devices=("0", "1"), gpus=1, cores=1, of_cores=range(2))
    assert found is not None and (found.devices, found.cpuset) == (("0",), (0,))
    assert other.take(devices=("0", "1"), gpus=1) is None and other.take(exclusive=True) is None
    adopted.release()
    found.release()
    alone = leases.adopt((), (), exclusive=True)
    assert other.take() is None
    alone.release()


def test_an_adopted_sandbox_goes_on_without_what_somebody_else_has_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_bench.sandbox.leases._PATIENCE", 0.1)
    leases, other = Leases("machine", tmp_path), Leases("machine", tmp_path)
    theirs = other.take(devices=("0",), gpus=1)
    assert theirs is not None
    adopted = leases.adopt(("0",), (), exclusive=False)
    assert not adopted.whole
    adopted.release()
    theirs.release()
    again = leases.adopt(("0",), (), exclusive=False)
    assert again.whole
    again.release()


def test_one_device_by_two_names_is_leased_once(tmp_path: Path) -> None:
    leases, other = Leases("machine", tmp_path), Leases("machine", tmp_path)
    found = leases.take(devices=("0",), gpus=1)
    assert found is not None
    assert other.take(devices=("nvidia.com/gpu=0",), gpus=1) is None
    assert other.take(devices=("/dev/nvidia0",), gpus=1) is None
    found.release()


def test_the_mark_of_a_killed_waiter_is_gone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trace_bench.sandbox.leases import Leases\n"
        "l = Leases('machine', Path(sys.argv[1])); l.wait(exclusive=True); print('waits', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    leases = Leases("machine", tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        assert leases.take() is None
        process.kill()
        process.wait()
    found = leases.take()
    assert found is not None
    found.release()
