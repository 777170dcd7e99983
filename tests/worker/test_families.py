"""Counting, reaping and ending candidates' processes, by itself. Uids are tried in containers (tests/integration)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from trace_bench.worker import sweep
from trace_bench.worker.families import Candidate, Families, Tally


def fork(body: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            body()
        finally:
            os._exit(7)
    return pid


def swept(candidate: Candidate) -> bool:
    return sweep.kill_session(candidate.pid)


def unexpected(pid: int, status: int) -> None:
    raise AssertionError(f"{pid} ended with {status}")


def test_a_family_that_cannot_be_ended_is_counted_and_said() -> None:
    families, tally = Families(lambda candidate: False, unexpected), Tally()
    candidate = Candidate(fork(lambda: time.sleep(60)), os.getuid(), 10, tally)
    candidate.living = lambda: {}  # type: ignore[method-assign]  # this uid is that of the tests too
    families.add(candidate)
    ended, empty = families.end(candidate, hung_up=False)
    assert not empty and ended["swept"] is False
    assert (tally.opened, tally.unswept, tally.left_processes) == (1, 1, 0)


def test_what_a_candidate_leaves_is_counted_and_ended() -> None:
    ready, told = os.pipe()

    def leave() -> None:
        for _ in range(2):
            if os.fork() == 0:
                os.write(told, b"x")
                time.sleep(60)
        time.sleep(60)

    families, tally = Families(swept, lambda pid, status: None), Tally()
    candidate = Candidate(fork(leave), None, 10, tally)
    families.add(candidate)
    assert os.read(ready, 1) + os.read(ready, 1) == b"xx"
    _, empty = families.end(candidate, hung_up=False)
    assert empty and tally.left_processes == 2 and sweep.cpu_of_session(candidate.pid) == {}
    os.close(ready)
    os.close(told)


def test_how_a_candidate_ended_by_itself_is_known_whoever_waited_for_it() -> None:
    families, tally = Families(swept, unexpected), Tally()
    candidate = Candidate(fork(lambda: os.kill(os.getpid(), signal.SIGXCPU)), None, 10, tally)
    families.add(candidate)
    deadline = time.monotonic() + 10
    while candidate.status is None and time.monotonic() < deadline:
        assert families.collect()
        time.sleep(0.005)
    ended, _ = families.end(candidate, hung_up=True)
    assert ended["signal"] == signal.SIGXCPU and ended["over_cpu"] and tally.over_cpu == 1


def test_a_flood_of_ended_children_does_not_hold_up_the_loop() -> None:
    reaped: list[int] = []
    families = Families(swept, lambda pid, status: reaped.append(pid))
    # Spawned: a fork of this process takes as long as its memory is large.
    children = [os.posix_spawn("/bin/true", ["true"], {}) for _ in range(300)]
    for pid in children:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert families.collect() is False and len(reaped) == 256
    assert families.collect() is True and set(reaped) == set(children)


def test_nothing_is_looked_at_while_there_is_no_candidate() -> None:
    assert Families(swept, unexpected).patience is None
