"""Who is killed when memory runs out under gVisor; real processes, and a ``meminfo`` of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_bench.worker.memory_guard import INTERVAL, LEAST, RELEASE, RESERVE, MemoryGuard, memory_by_uid

MINE = os.getuid()
NOBODY = 0x7FFF0000


def guard(folder: Path, free: int, total: int = 2 << 30, *, gvisor: bool = True) -> MemoryGuard:
    meminfo = folder / "meminfo"
    meminfo.write_text(f"MemTotal:  {total >> 10} kB\nMemFree:  {free >> 10} kB\nMemAvailable: 0 kB\n")
    return MemoryGuard(meminfo, gvisor=gvisor)


def test_nobody_goes_while_enough_is_left(tmp_path: Path) -> None:
    assert guard(tmp_path, RESERVE).victim([MINE], [MINE], 0) is None
    assert guard(tmp_path, 64 << 20, total=256 << 20).victim([MINE], [MINE], 0) is None, (
        "a small sandbox keeps a quarter"
    )


@pytest.mark.parametrize("total", [2 << 30, 128 << 20])
def test_a_candidate_goes_before_a_phase(tmp_path: Path, total: int) -> None:
    reserve = min(RESERVE, total // 4)
    short = guard(tmp_path, reserve - 4096, total)
    assert short.victim([NOBODY, MINE], [NOBODY + 1], 0) == MINE
    assert short.victim([NOBODY], [MINE], RELEASE) is None, "a phase goes later"
    short = guard(tmp_path, reserve // 2 - 4096, total)
    assert short.victim([NOBODY], [MINE], RELEASE) == MINE, "a candidate that holds nothing is no help"
    assert short.victim([NOBODY], [], RELEASE) is None


def test_of_two_candidates_the_larger_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.worker.memory_guard.memory_by_uid", lambda: {1: 5, 2: 9, 3: 7, 4: 100})
    assert guard(tmp_path, 0).victim([1, 2, 3], [4], 0) == 2


def test_what_a_candidate_held_may_take_a_while_to_come_back_before_a_phase_is_blamed(tmp_path: Path) -> None:
    short = guard(tmp_path, 0)
    assert short.victim([NOBODY], [MINE], 10.0) == MINE
    assert short.victim([MINE], [MINE], 20.0) == MINE
    assert short.victim([], [MINE], 20.0 + RELEASE / 2) is None
    assert short.victim([], [MINE], 20.0 + RELEASE) == MINE


def test_a_candidate_may_have_what_is_left_and_no_more(tmp_path: Path) -> None:
    assert guard(tmp_path, 1 << 30).room(1 << 20) == 1 << 20
    assert guard(tmp_path, 1 << 30).room(1 << 40) == (1 << 30) - RESERVE * 3 // 2
    assert guard(tmp_path, 0).room(1 << 40) == LEAST
    assert guard(tmp_path, 0, gvisor=False).room(1 << 40) == 1 << 40


def test_a_kernel_that_knows_the_processes_is_left_to_it(tmp_path: Path) -> None:
    linux = guard(tmp_path, 0, gvisor=False)
    assert linux.interval is None and linux.victim([MINE], [MINE], 0) is None
    assert guard(tmp_path, 0).interval == INTERVAL


def test_memory_is_counted_by_uid_and_survives_processes_that_end() -> None:
    held = memory_by_uid()
    assert held[MINE] > 0 and NOBODY not in held
