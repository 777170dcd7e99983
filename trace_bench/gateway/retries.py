"""Sends a request to a provider again after failures that may pass, and records each try."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from trace_bench.artifacts.calls import LlmTry
from trace_bench.gateway.host_limits import HostLimits, Permit
from trace_bench.gateway.usage import NOTHING, Counted

T = TypeVar("T")

MAX_RETRY_AFTER = 300.0
"""Seconds. A provider that asks for a longer wait gets its next request after this time all the same."""


@dataclass(frozen=True)
class Backoff:
    """Seconds: before the k-th further try a wait drawn evenly from 0 to ``first * 2**(k-1)``, or to `cap`."""

    first: float = 1.0
    cap: float = 60.0

    def wait(self, k: int) -> float:
        return random.uniform(0.0, min(self.cap, self.first * 2.0 ** (k - 1)))


class TryFailed(Exception):
    """One try brought no answer.

    Attributes:
        status: of the HTTP answer; None where none came.
        again: another try may succeed.
        after: seconds that the provider asks to wait, or None.
        used: tokens that the provider reported all the same, for an answer that cannot be used.
        cost: of them, in US dollars.
    """

    used: Counted = NOTHING
    cost: float = 0.0

    def __init__(
        self, message: str, *, status: int | None = None, again: bool = True, after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.again = again
        self.after = after


class GaveUp(Exception):
    """No try brought an answer. The text is that of the last failure."""


async def persist(
    send: Callable[[], Awaitable[tuple[int, int, T]]],
    *,
    retries: int,
    backoff: Backoff,
    on_try: Callable[[LlmTry], None],
    on_wait: Callable[[float, str], None],
    before: int = 0,
    limiter: HostLimits | None = None,
    tokens: int = 0,
) -> T:
    """Call `send` until it returns an answer, at most ``1 + retries`` times.

    Args:
        send: returns HTTP status, tokens used and the answer, or raises `TryFailed`.
        on_try: called with each try as soon as it has ended.
        on_wait: called before each wait with its seconds and its reason.
        before: tries that were made already.
        tokens: expected of one try, for `limiter`.

    Raises:
        GaveUp: the last failure, or one after which a further try is useless.
    """
    made, after, why = before, None, "an earlier try failed"
    while True:
        ready_at = time.monotonic()
        if made > 0:
            wait = backoff.wait(made)
            wait = wait if after is None else min(after, MAX_RETRY_AFTER) + min(wait, 1.0)
            on_wait(wait, why)
            await asyncio.sleep(wait)
        permit = await _permit(limiter, tokens, on_wait)
        began = time.monotonic()
        waited = round(began - ready_at, 4)
        used = 0
        try:
            status, used, answer = await send()
        except TryFailed as failure:
            made, after, why = made + 1, failure.after, str(failure)
            used = failure.used.prompt + failure.used.completion
            on_try(
                LlmTry(
                    status=failure.status,
                    seconds=_since(began),
                    waited=waited,
                    error=why,
                    prompt_tokens=failure.used.prompt,
                    completion_tokens=failure.used.completion,
                    cost_usd=failure.cost,
                )
            )
            if not failure.again or made > retries:
                raise GaveUp(why) from None
        else:
            on_try(LlmTry(status=status, seconds=_since(began), waited=waited))
            return answer
        finally:
            if permit is not None:
                permit.done(used)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 4)


async def _permit(limiter: HostLimits | None, tokens: int, on_wait: Callable[[float, str], None]) -> Permit | None:
    if limiter is None:
        return None
    while isinstance(permit := limiter.ask(tokens), int | float):
        on_wait(permit, "what llm.limits allows is used up")
        await asyncio.sleep(permit)
    return permit


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``retry-after`` (seconds, or an HTTP date); None where neither says.

    Args:
        now: seconds since the epoch; the answer's own ``date`` is used instead if it has one, since clocks differ.
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
    return None if until is None else max(0.0, until - (_moment(lower.get("date")) or now))


def _moment(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (TypeError, ValueError, OverflowError):
        return None
