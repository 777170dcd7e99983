"""Limits that all processes of a host keep together: how many requests, tokens, and calls at a time."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.gateway.host_limits import HostLimits, Permit
from trace_bench.gateway.real import HostLimit

KEY = "openai\nhttps://api.example.org\nsk-very-secret"


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def granted(limits: HostLimits, tokens: int = 0) -> Permit:
    answer = limits.ask(tokens)
    assert isinstance(answer, Permit), answer
    return answer


def wait(limits: HostLimits, tokens: int = 0) -> float:
    answer = limits.ask(tokens)
    assert isinstance(answer, float), "it was let through"
    return answer


def test_no_limit_leaves_no_trace(tmp_path: Path) -> None:
    limits = HostLimits(tmp_path / "limits", KEY, HostLimit())
    for _ in range(100):
        granted(limits, 10**9).done(5)
    assert not (tmp_path / "limits").exists()


def test_requests_beyond_the_limit_wait_until_the_first_is_a_minute_old(tmp_path: Path) -> None:
    clock = Clock(1000.5)
    limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=3), clock=clock)
    for _ in range(3):
        granted(limits).done()
    assert 60.0 <= wait(limits) <= 62.0
    clock.now = 1060.9
    wait(limits)
    clock.now = 1061.1
    granted(limits)


def test_less_than_one_request_a_minute_is_kept_too(tmp_path: Path) -> None:
    clock = Clock()
    limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=0.5), clock=clock)
    granted(limits)
    clock.now += 100
    wait(limits)
    clock.now += 22
    granted(limits)


def test_tokens_are_corrected_by_what_a_request_used(tmp_path: Path) -> None:
    clock = Clock()
    limits = HostLimits(tmp_path, KEY, HostLimit(tokens_per_minute=1000), clock=clock)
    first = granted(limits, 900)
    wait(limits, 200)
    first.done(100)
    second = granted(limits, 200)
    clock.now += 30
    second.done(1200)
    clock.now += 40  # the estimates are forgotten, what went beyond them is not
    wait(limits, 200)
    clock.now += 25
    granted(limits, 200)


def test_a_request_that_is_larger_than_the_limit_goes_alone(tmp_path: Path) -> None:
    clock = Clock()
    limits = HostLimits(tmp_path, KEY, HostLimit(tokens_per_minute=100), clock=clock)
    granted(limits, 5000)
    wait(limits, 1)
    clock.now += 62
    granted(limits, 5000)


def test_only_so_many_calls_are_under_way_at_a_time(tmp_path: Path) -> None:
    limits = HostLimits(tmp_path, KEY, HostLimit(concurrent=2))
    first, second = granted(limits), granted(limits)
    assert 0 < wait(limits) < 1
    first.done()
    first.done()
    third = granted(limits)
    wait(limits)
    with third:
        pass
    second.done()
    granted(limits), granted(limits)


def test_other_keys_are_other_limits(tmp_path: Path) -> None:
    one = HostLimits(tmp_path, KEY, HostLimit(concurrent=1, requests_per_minute=1))
    other = HostLimits(tmp_path, KEY + "2", HostLimit(concurrent=1, requests_per_minute=1))
    held = [granted(one), granted(other)]
    wait(one), wait(other)
    assert len(held) == 2


def test_the_strictest_limit_of_the_last_minute_holds_for_all(tmp_path: Path) -> None:
    clock = Clock()
    loose = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=100, concurrent=4), clock=clock)
    strict = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=2, concurrent=1), clock=clock)
    held = [granted(loose) for _ in range(3)]
    wait(strict)
    wait(loose)
    for permit in held:
        permit.done()
    wait(loose)
    clock.now += 70  # nobody has asked under the strict one for a minute
    held = [granted(loose) for _ in range(4)]
    wait(loose)


def test_slots_above_the_strict_limit_count_for_it(tmp_path: Path) -> None:
    loose = HostLimits(tmp_path, KEY, HostLimit(concurrent=4))
    strict = HostLimits(tmp_path, KEY, HostLimit(concurrent=1))
    low, high = granted(loose), granted(loose)
    low.done()
    wait(strict)
    high.done()
    granted(strict)


def test_a_clock_that_is_set_back_holds_nobody_up_for_more_than_a_minute(tmp_path: Path) -> None:
    clock = Clock(1e6)
    limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=2, tokens_per_minute=10), clock=clock)
    granted(limits, 5), granted(limits, 5)
    clock.now = 3.0
    assert wait(limits) < 65
    clock.now = 65.0
    granted(limits, 5), granted(limits, 5)
    wait(limits)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"seconds": [[1]], "limits": []}', b'{"seconds": 3}', b"\xff"])
def test_damaged_counts_are_started_anew(tmp_path: Path, content: bytes) -> None:
    limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=1))
    granted(limits)
    (counts,) = tmp_path.glob("*/counts")
    counts.write_bytes(content)
    granted(limits)
    wait(limits)


def test_the_key_is_not_written_down(tmp_path: Path) -> None:
    granted(HostLimits(tmp_path / "limits", KEY, HostLimit(requests_per_minute=1, concurrent=1)))
    found = list((tmp_path / "limits").rglob("*"))
    assert not any("sk-very" in str(path) or (path.is_file() and b"sk-very" in path.read_bytes()) for path in found)
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (tmp_path / "limits").rglob("*"))


def test_whoever_asks_while_another_process_writes_is_not_blocked(tmp_path: Path) -> None:
    import fcntl

    limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=10))
    permit = granted(limits, 10)
    (counts,) = tmp_path.glob("*/counts")
    with counts.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert wait(limits) < 1
        permit.done(20)  # not counted, and not blocked


PROCESS = f"""
import sys, time
from pathlib import Path
from trace_bench.gateway.host_limits import HostLimits, Permit
from trace_bench.gateway.real import HostLimit

limits = HostLimits(Path(sys.argv[1]), {KEY!r}, HostLimit(requests_per_minute=50, tokens_per_minute=400, concurrent=3))
print("ready", flush=True)
sys.stdin.readline()
"""


def process(tmp_path: Path, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS + script, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_several_processes_and_threads_keep_one_limit(tmp_path: Path) -> None:
    script = """
from concurrent.futures import ThreadPoolExecutor

def one(_):
    for _ in range(1000):
        answer = limits.ask(10)
        if isinstance(answer, Permit):
            now = time.monotonic()
            answer.done(10)
            return now
        if answer > 5:
            return None
        time.sleep(answer)

with ThreadPoolExecutor(4) as pool:
    print(sum(at is not None for at in pool.map(one, range(30))))
"""
    started = [process(tmp_path, script) for _ in range(4)]
    for child in started:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    counts = [int(child.communicate("go\n", timeout=120)[0]) for child in started]
    assert sum(counts) == 40, counts


def test_the_slot_of_a_dead_process_is_free(tmp_path: Path) -> None:
    child = process(tmp_path, "held = [limits.ask(1) for _ in range(3)]\nprint(held)\ntime.sleep(600)\n")
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    child.stdin.write("go\n")
    child.stdin.flush()
    try:
        assert child.stdout.readline().count("Permit") == 3
        limits = HostLimits(tmp_path, KEY, HostLimit(requests_per_minute=50, tokens_per_minute=400, concurrent=3))
        wait(limits)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    granted(limits)


def test_threads_of_one_process_never_exceed_the_calls_at_a_time(tmp_path: Path) -> None:
    import threading

    limits = HostLimits(tmp_path, KEY, HostLimit(concurrent=3))
    lock, at_work, most = threading.Lock(), 0, 0
    pause = threading.Event()

    def one(_: int) -> None:
        nonlocal at_work, most
        while not isinstance(answer := limits.ask(0), Permit):
            pause.wait(answer / 10)
        with lock:
            at_work += 1
            most = max(most, at_work)
        pause.wait(0.01)
        with lock:
            at_work -= 1
        answer.done()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, range(36)))
    assert most <= 3


@given(
    per_minute=st.sampled_from([0.7, 1.0, 3.0, 7.5]),
    tokens=st.sampled_from([50, 1000]),
    steps=st.lists(st.floats(0.0, 40.0), min_size=1, max_size=40),
    seed=st.integers(0, 1 << 30),
)
def test_no_minute_ever_holds_more_than_the_limit(
    tmp_path_factory: pytest.TempPathFactory, per_minute: float, tokens: int, steps: list[float], seed: int
) -> None:
    clock, draws = Clock(), random.Random(seed)
    limit = HostLimit(requests_per_minute=per_minute, tokens_per_minute=tokens)
    limits = HostLimits(tmp_path_factory.mktemp("limits"), KEY, limit, clock=clock)
    asked: list[tuple[float, int]] = []
    for step in steps:
        clock.now += step
        wanted = draws.randrange(1, 50)
        answer = limits.ask(wanted)
        if isinstance(answer, Permit):
            used = draws.randrange(1, wanted + 1)
            answer.done(used)
            asked.append((clock.now, used))
    for start, _ in asked:
        inside = [used for at, used in asked if start <= at < start + 60]
        assert len(inside) <= max(1, per_minute)
        assert sum(inside) <= tokens
