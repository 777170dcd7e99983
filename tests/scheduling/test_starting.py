"""Sandboxes that start: few at once, at a pace, and slower when their host says that it is too fast."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trace_bench.cancellation import Cancellation
from trace_bench.sandbox.errors import RateLimited
from trace_bench.sandbox.pace import Pace
from trace_bench.scheduling import starting
from trace_bench.scheduling.starting import StartGate, Startup


class Clock:
    """Time passes where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def entered(gate: StartGate) -> Startup:
    start = gate.enter()
    assert start is not None and gate.wait_to_create(start)
    return start


def test_the_gate_lets_through_as_many_as_it_is_wide() -> None:
    gate = StartGate(2)
    first, second = entered(gate), entered(gate)
    third = threading.Thread(target=gate.enter)
    third.start()
    third.join(0.05)
    assert third.is_alive()
    first.finish()
    third.join(10)
    assert not third.is_alive()
    first.finish()
    first.finish()  # twice does no harm: only one place was its own
    second.finish()


def test_what_is_no_longer_wanted_stops_waiting_and_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "LOOK", 0.01)
    gate = StartGate(1)
    held = entered(gate)
    asked = iter([None, None, "kill"])
    assert gate.enter(Cancellation(lambda: next(asked))) is None
    held.finish()
    assert gate.enter(Cancellation(lambda: "kill")) is None
    entered(gate).finish()


def test_starts_keep_the_pace_of_the_host(tmp_path: Path) -> None:
    clock = Clock()
    gate = StartGate(100, Pace("x", 5.1, tmp_path, clock=clock), clock=clock, pause=clock.sleep)
    times, waits = [], []
    for _ in range(4):
        waits.append(entered(gate).waited)
        times.append(clock.now)
        clock.now += 0.05
    assert times == pytest.approx([0.0, 0.2, 0.4, 0.6]) and waits == pytest.approx([0.0, 0.15, 0.15, 0.15])


def test_a_refusal_holds_all_back_and_each_further_one_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting.random, "uniform", lambda low, high: 1.0)
    clock = Clock()
    gate = StartGate(100, clock=clock, pause=clock.sleep)
    holds = []
    for _ in range(8):
        together = [entered(gate), entered(gate), entered(gate)]
        began = clock.now
        for start in together:
            gate.refused(start, RateLimited("too fast"))
        entered(gate)
        holds.append(round(clock.now - began))
    assert holds == [1, 2, 4, 8, 16, 32, 60, 60], "those that were refused together count once"
    gate.accepted()
    began = clock.now
    gate.refused(entered(gate), RateLimited("too fast"))
    entered(gate)
    assert round(clock.now - began) == 1
    began = clock.now
    gate.refused(entered(gate), RateLimited("too fast", retry_after=33.0))
    entered(gate)
    assert round(clock.now - began) == 33


def test_who_keeps_a_pace_has_another_turn_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting.random, "uniform", lambda low, high: 1.0)
    clock = Clock()
    gate = StartGate(100, Pace("x", 5.1, tmp_path, clock=clock), clock=clock, pause=clock.sleep)
    first = entered(gate)
    assert gate.refused(first, RateLimited("too fast")) == 0.0 and entered(gate).waited == pytest.approx(0.2)
    assert [gate.refused(entered(gate), RateLimited("too fast")) for _ in range(3)] == pytest.approx([0.2, 0.6, 1.4])


def test_refusals_that_do_not_end_are_a_failure_in_the_end_and_begin_anew() -> None:
    clock = Clock()
    gate = StartGate(1, clock=clock, pause=clock.sleep)
    start = Startup(None)
    assert not gate.gives_up()
    gate.refused(start, RateLimited("too many"))
    clock.now += starting.PATIENCE - 1
    assert not gate.gives_up()
    clock.now += 2
    assert gate.gives_up() and not gate.gives_up()
    gate.refused(start, RateLimited("too many"))
    gate.accepted()
    clock.now += 2 * starting.PATIENCE
    assert not gate.gives_up(), "it has made one meanwhile"
