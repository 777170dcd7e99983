"""Reaping and ending candidates' processes. What goes by uid is tried in containers (tests/integration)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from trace_bench.worker import sweep
from trace_bench.worker.reaper import Candidate, Reaper, Tally


def fork(body: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            body()
        finally:
            os._exit(7)
    return pid


def swept(pid: int, uid: int | None) -> bool:
    return sweep.kill_session(pid)


def unexpected(pid: int, status: int) -> None:
    raise AssertionError(f"{pid} ended with {status}")


def sleep() -> None:
    time.sleep(60)


def test_a_family_that_cannot_be_ended_is_counted_and_said() -> None:
    reaper, tally = Reaper(lambda pid, uid: False, unexpected), Tally()
    candidate = Candidate(fork(sleep), os.getuid(), 10, tally, frozenset({"processes"}))
    reaper.add(candidate)
    ended, empty = reaper.end(candidate, hung_up=False)
    assert not empty and ended["swept"] is False
    assert (tally.opened, tally.unswept, tally.needs) == (1, 1, {"processes"})


def test_a_candidate_that_cannot_fork_costs_no_sweep() -> None:
    reaper, tally = Reaper(lambda pid, uid: False, unexpected), Tally()
    candidate = Candidate(fork(sleep), os.getuid(), 10, tally)
    reaper.add(candidate)
    ended, empty = reaper.end(candidate, hung_up=False)
    assert empty and ended["swept"] is True and tally.unswept == 0


def test_what_a_candidate_leaves_is_ended() -> None:
    ready, told = os.pipe()

    def leave() -> None:
        for _ in range(2):
            if os.fork() == 0:
                os.write(told, b"x")
                sleep()
        sleep()

    reaper = Reaper(swept, lambda pid, status: None)
    candidate = Candidate(fork(leave), None, 10, Tally(), frozenset({"processes"}))
    reaper.add(candidate)
    assert os.read(ready, 1) + os.read(ready, 1) == b"xx"
    _, empty = reaper.end(candidate, hung_up=False)
    assert empty and sweep.session_of(candidate.pid) == set()
    os.close(ready)
    os.close(told)


def test_how_a_candidate_ended_by_itself_is_known_after_it_was_reaped_with_others() -> None:
    reaper, tally = Reaper(swept, unexpected), Tally()
    candidate = Candidate(fork(lambda: os.kill(os.getpid(), signal.SIGXCPU)), None, 10, tally)
    reaper.add(candidate)
    deadline = time.monotonic() + 10
    while candidate.status is None and time.monotonic() < deadline:
        assert reaper.collect()
        time.sleep(0.005)
    ended, _ = reaper.end(candidate, hung_up=True)
    assert ended["signal"] == signal.SIGXCPU and ended["over_cpu"] and tally.over_cpu == 1
    assert ended["cpu_seconds"] == tally.cpu_seconds > 0


def test_a_flood_of_ended_children_does_not_hold_up_the_loop() -> None:
    reaped: list[int] = []
    reaper = Reaper(swept, lambda pid, status: reaped.append(pid))
    # Spawned: a fork of this process takes as long as its memory is large.
    children = [os.posix_spawn("/bin/true", ["true"], {}) for _ in range(300)]
    for pid in children:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert reaper.collect() is False and len(reaped) == 256
    assert reaper.collect() is True and set(reaped) == set(children)
