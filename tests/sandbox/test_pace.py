"""Sandboxes that all controllers of a user create together, so many a second."""

from __future__ import annotations

import os
from multiprocessing import get_context
from pathlib import Path

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.pace import FURTHEST, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_times_are_at_even_distances_and_nobody_overtakes(tmp_path: Path) -> None:
    clock = Clock()
    one, other = (Pace("modal", 5.1, tmp_path, clock=clock) for _ in range(2))
    waits = [one.take(), other.take(), one.take(), other.take()]
    assert waits == pytest.approx([0.0, 0.2, 0.4, 0.6])
    clock.now += 0.5
    assert one.take() == pytest.approx(0.3)
    clock.now += 100.0
    assert [one.take(), one.take()] == pytest.approx([0.0, 0.2]), "what was not used is lost"


def test_whoever_is_refused_holds_everybody_back(tmp_path: Path) -> None:
    clock = Clock()
    one, other = (Pace("modal", 5.1, tmp_path, clock=clock) for _ in range(2))
    one.hold(8.0)
    other.hold(3.0)
    assert [other.take(), one.take()] == pytest.approx([8.0, 8.2])


@pytest.mark.parametrize("left", [b"", b"abc", b"\xff" * 8, (1e300).hex().encode()])
def test_what_is_no_time_says_nothing(tmp_path: Path, left: bytes) -> None:
    pace = Pace("modal", 5.1, tmp_path, clock=Clock())
    pace.take()
    (file,) = tmp_path.iterdir()
    file.write_bytes(left)
    assert [pace.take(), pace.take()] == pytest.approx([0.0, 0.2])


def test_a_clock_that_begins_anew_with_the_machine_waits_for_no_old_time(tmp_path: Path) -> None:
    clock = Clock()
    clock.now = 1e6
    pace = Pace("modal", 5.1, tmp_path, clock=clock)
    pace.take()
    clock.now = 1e6 - FURTHEST - 10
    assert pace.take() == 0.0


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    pace = Pace("modal", 5.1, tmp_path)
    pace.take()
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentUnavailable, match="cannot be opened"):
        pace.take()


def _take(folder: Path, count: int, out: str) -> None:
    pace = Pace("modal", 102.0, folder, clock=lambda: 1000.0)
    Path(out).write_text("\n".join(repr(pace.take()) for _ in range(count)))


def test_processes_keep_it_together(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    context = get_context("fork")
    outs = [str(tmp_path / f"{n}") for n in range(3)]
    processes = [context.Process(target=_take, args=(folder, 20, out)) for out in outs]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == os.EX_OK
    times = sorted(float(line) for out in outs for line in Path(out).read_text().split())
    assert times == pytest.approx([n / 100 for n in range(60)]), "each was taken once"
