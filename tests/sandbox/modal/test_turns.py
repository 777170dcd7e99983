"""Creations that leave at even distances."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from trace_bench.sandbox.modal import client
from trace_bench.sandbox.modal.client import Turns


class Clock:
    """Sleeping is as long as it is told, and `late` longer where that names how manieth sleep it is."""

    def __init__(self, **late: float) -> None:
        self.now, self.sleeps, self._late = 1000.0, 0, late

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now += seconds + self._late.get(f"nr{self.sleeps}", 0.0)


def left(monkeypatch: pytest.MonkeyPatch, clock: Clock, count: int, found: Turns) -> list[float]:
    """When each of `count` calls that come at once leaves, from now on."""
    monkeypatch.setattr(client.asyncio, "sleep", clock.sleep)
    began = clock.now

    async def one() -> float:
        await found.next()
        return clock.now - began

    async def all_of_them() -> list[float]:
        return list(await asyncio.gather(*(one() for _ in range(count))))

    return run(all_of_them())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_calls_that_come_at_once_leave_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    found = Turns(5.0, clock=clock)
    assert left(monkeypatch, clock, 4, found) == pytest.approx([0.0, 0.2, 0.404, 0.608])
    clock.now += 100.0
    assert left(monkeypatch, clock, 2, found) == pytest.approx([0.0, 0.2])


def test_one_that_is_late_is_made_up_for_and_none_comes_too_close(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(nr2=0.006, nr5=0.1)
    times = left(monkeypatch, clock, 8, Turns(5.0, clock=clock))
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == pytest.approx([0.2, 0.21, 0.2, 0.204, 0.304, 0.2, 0.204])
