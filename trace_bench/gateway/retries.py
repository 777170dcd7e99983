"""Asks a provider again after failures that may pass: when, how often, and what is written down of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar

from trace_bench.artifacts.records import LlmTry

T = TypeVar("T")

MAX_RETRY_AFTER = 300.0
"""Seconds. A provider that wants more patience than that is asked again all the same."""


@dataclass(frozen=True)
class Backoff:
    """Seconds: before the k-th further try a wait drawn evenly from 0 to ``first * 2**(k-1)``, or to `cap`."""

    first: float = 1.0
    cap: float = 60.0

    def wait(self, k: int) -> float:
        return random.uniform(0.0, min(self.cap, self.first * 2.0 ** (k - 1)))


class Permit(Protocol):
    def done(self, tokens: int) -> None:
        """Say how many tokens it took."""


class Limiter(Protocol):
    """The part of `HostLimits` that is used here."""

    def ask(self, tokens: int) -> Permit | float:
        """Leave to ask, or the seconds after which to ask for it again."""


class TryFailed(Exception):
    """One try came to nothing.

    Attributes:
        status: of the HTTP answer; None where none came.
        again: another try may do better.
        after: seconds that the provider wants to be left alone, or None.
    """

    def __init__(
        self, message: str, *, status: int | None = None, again: bool = True, after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.again = again
        self.after = after


class GaveUp(Exception):
    """No try brought an answer. The text is that of the last one."""


def _nobody(seconds: float, why: str) -> None: ...


async def persist(
    ask: Callable[[], Awaitable[tuple[int, int, T]]],
    *,
    retries: int,
    backoff: Backoff,
    on_try: Callable[[LlmTry], None],
    before: int = 0,
    limiter: Limiter | None = None,
    tokens: int = 0,
    on_wait: Callable[[float, str], None] = _nobody,
) -> T:
    """Call `ask` until it answers, at most ``1 + retries`` times.

    Args:
        ask: gives the HTTP status, the tokens used and the answer, or raises `TryFailed`.
        on_try: told of each try as soon as it has ended.
        before: tries that were made already.
        tokens: what one try is held to take until it is known.
        on_wait: told before each wait how many seconds it takes, and why.

    Raises:
        GaveUp: the last failure, or one after which asking again is no use.
    """
    made, after, why = before, None, "an earlier try failed"
    while True:
        asked_at = time.monotonic()
        if made > 0:
            wait = backoff.wait(made)
            wait = wait if after is None else min(after, MAX_RETRY_AFTER) + min(wait, 1.0)
            on_wait(wait, why)
            await asyncio.sleep(wait)
        permit = await _leave(limiter, tokens, on_wait)
        began = time.monotonic()
        waited, used = began - asked_at, 0
        try:
            status, used, answer = await ask()
        except TryFailed as failure:
            made, after, why = made + 1, failure.after, str(failure)
            on_try(_try(failure.status, time.monotonic() - began, waited, str(failure)))
            if not failure.again or made > retries:
                raise GaveUp(str(failure)) from None
        else:
            on_try(_try(status, time.monotonic() - began, waited))
            return answer
        finally:
            if permit is not None:
                permit.done(used)


def _try(status: int | None, seconds: float, waited: float, error: str = "") -> LlmTry:
    return LlmTry(status=status, seconds=round(seconds, 4), waited=round(waited, 4), error=error)


async def _leave(limiter: Limiter | None, tokens: int, on_wait: Callable[[float, str], None]) -> Permit | None:
    if limiter is None:
        return None
    while isinstance(leave := limiter.ask(tokens), int | float):
        on_wait(leave, "what llm.limits allows is used up")
        await asyncio.sleep(leave)
    return leave


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``retry-after`` (seconds, or an HTTP date); None where neither says.

    Args:
        now: seconds since the epoch; the answer's own ``date`` goes before it, since clocks differ.
    """
    lower = {str(name).lower(): str(value) for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(lower[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0.0 <= seconds < float("inf"):
            return seconds
    until = _moment(lower.get("retry-after"))
    if until is None:
        return None
    return max(0.0, until - (_moment(lower.get("date")) or now))


def _moment(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (TypeError, ValueError, OverflowError):
        return None
