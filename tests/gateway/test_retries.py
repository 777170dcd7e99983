"""When a provider is asked again: after how long, how often, and with whose leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.artifacts.calls import LlmTry
from trace_bench.gateway import retries
from trace_bench.gateway.host_limits import Permit
from trace_bench.gateway.retries import Backoff, GaveUp, TryFailed, persist, retry_after

NOW = 1_000_000_000.0


class Waits(list[float]):
    """The seconds that were slept, none of them for real."""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    slept = Waits()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(retries.asyncio, "sleep", sleep)
    return slept


def _asks(*outcomes: TryFailed | str) -> Callable[[], Awaitable[tuple[int, int, str]]]:
    left = list(outcomes)

    async def ask() -> tuple[int, int, str]:
        outcome = left.pop(0)
        if isinstance(outcome, TryFailed):
            raise outcome
        return 200, 11, outcome

    return ask


def _run(ask: Callable[[], Awaitable[tuple[int, int, str]]], **options: object) -> tuple[str, list[LlmTry]]:
    tries: list[LlmTry] = []
    given = {
        "retries": 3,
        "backoff": Backoff(1.0, 8.0),
        "on_try": tries.append,
        "on_wait": lambda *wait: None,
        **options,
    }
    return asyncio.run(persist(ask, **given)), tries  # type: ignore[arg-type]


def test_waits_double_up_to_the_cap_and_are_drawn_from_all_of_it(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[tuple[float, float]] = []

    def whole(low: float, high: float) -> float:
        spans.append((low, high))
        return high

    monkeypatch.setattr(retries.random, "uniform", whole)
    answer, tries = _run(_asks(*[TryFailed("503", status=503)] * 5, "yes"), retries=5)
    assert answer == "yes"
    assert spans == [(0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (0.0, 8.0), (0.0, 8.0)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert [t.status for t in tries] == [503] * 5 + [200]


def test_what_the_provider_asks_for_goes_before_the_own_wait(waits: Waits) -> None:
    _run(_asks(TryFailed("429", status=429, after=40.0), "yes"))
    assert 40.0 <= waits[0] <= 41.0


def test_nobody_waits_for_ever(waits: Waits) -> None:
    _run(_asks(TryFailed("429", status=429, after=1e9), "yes"))
    assert waits[0] <= retries.MAX_RETRY_AFTER + 1.0


def test_each_wait_is_told_with_its_reason_before_it_begins(waits: Waits) -> None:
    class Busy:
        left = 2

        def ask(self, tokens: int) -> Permit | float:
            self.left -= 1
            return 7.5 if self.left >= 0 else Permit()

    told: list[tuple[int, float, str]] = []
    _run(
        _asks(TryFailed("m answered 429: slowly", status=429, after=40.0), "yes"),
        limiter=Busy(),
        on_wait=lambda seconds, why: told.append((len(waits), seconds, why)),
    )
    used_up = "what llm.limits allows is used up"
    assert [(n, why) for n, _, why in told] == [(0, used_up), (1, used_up), (2, "m answered 429: slowly")]
    assert [seconds for _, seconds, _ in told] == waits


def test_tries_are_counted_over_processes(waits: Waits) -> None:
    with pytest.raises(GaveUp, match="the second"):
        _run(_asks(TryFailed("the first"), TryFailed("the second"), "never"), before=2)
    assert len(waits) == 2, "also before the first, since others failed before it"


def test_what_does_not_pass_is_not_asked_again(waits: Waits) -> None:
    with pytest.raises(GaveUp, match="the key"):
        _run(_asks(TryFailed("the key", status=401, again=False), "never"))
    assert waits == []


def test_leave_is_taken_for_each_try_and_given_back_with_what_it_used(waits: Waits) -> None:
    class Leave:
        def done(self, tokens: int) -> None:
            used.append(tokens)

    class Limiter:
        def ask(self, tokens: int) -> Leave | float:
            asked.append(tokens)
            return answers.pop(0)

    used: list[int] = []
    asked: list[int] = []
    answers: list[Leave | float] = [3.0, 2.0, Leave(), Leave()]
    _run(_asks(TryFailed("broken"), "yes"), limiter=Limiter(), tokens=500)
    assert asked == [500] * 4
    assert waits[:2] == [3.0, 2.0]
    assert used == [0, 11]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"Retry-After": "Sun, 09 Sep 2001 01:47:10 GMT"}, 30.0),
        ({"Retry-After": "Sun, 09 Sep 2001 01:47:10 GMT", "Date": "Sun, 09 Sep 2001 01:47:05 GMT"}, 5.0),
        ({"Retry-After": "Sun, 09 Sep 2001 01:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text())
def test_no_retry_after_is_too_odd(text: str) -> None:
    found = retry_after({"Retry-After": text}, NOW)
    assert found is None or found >= 0.0
