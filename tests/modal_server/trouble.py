"""Trouble on demand: rules that make a call fail, wait or lose its reply; the rate, time and failures of starts."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError


@dataclass(frozen=True)
class Action:
    """Does nothing."""

    async def before(self) -> None:
        """Called before the call does its work."""

    async def after(self) -> None:
        """Called once the call has done its work."""


@dataclass(frozen=True)
class Refuse(Action):
    """The call fails with this status before anything is done."""

    status: str

    async def before(self) -> None:
        raise GRPCError(Status[self.status], "trouble on demand")


@dataclass(frozen=True)
class LoseReply(Action):
    """The call does its work; its caller gets `status` instead of the reply."""

    status: str = "DEADLINE_EXCEEDED"

    async def after(self) -> None:
        raise GRPCError(Status[self.status], "trouble on demand: the reply is lost")


@dataclass(frozen=True)
class Delay(Action):
    """The call waits `seconds` before it does its work."""

    seconds: float

    async def before(self) -> None:
        await asyncio.sleep(self.seconds)


@dataclass
class Rule:
    """Calls of `rpc` for which `when` is true meet `do`: `times` of them (None: all) after the first `after`."""

    rpc: str
    do: Action
    after: int = 0
    times: int | None = 1
    when: Callable[[Any], bool] = lambda request: True
    seen: int = 0
    hits: int = 0


class Trouble:
    """The rules of a server. Any thread may add."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, *, rpc: str, do: Action, **limits: Any) -> Rule:
        """A new rule, with `limits` as of `Rule`; its `hits` count the calls that met it."""
        rule = Rule(rpc, do, **limits)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def meet(self, rpc: str, request: Any) -> list[Action]:
        """The actions that this call meets."""
        actions: list[Action] = []
        with self._lock:
            for rule in self._rules:
                if rule.rpc != rpc or not rule.when(request):
                    continue
                rule.seen += 1
                if rule.seen > rule.after and (rule.times is None or rule.hits < rule.times):
                    rule.hits += 1
                    actions.append(rule.do)
        return actions


@dataclass
class Starts:
    """The starts of sandboxes: their rate, their times, and the share that fails.

    Start times are lognormal with median `p50` and 99th percentile `p99` (seconds); None is at once. `failures` is the
    share of starts that end in INTERNAL. More than `per_second` creations within any second are refused with
    RESOURCE_EXHAUSTED (None: no limit); `refused` counts them.
    """

    p50: float | None = None
    p99: float = 0.0
    failures: float = 0.0
    per_second: int | None = None
    seed: int = 0
    refused: int = 0
    _accepted: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def admit(self) -> None:
        """Count a creation.

        Raises:
            GRPCError: RESOURCE_EXHAUSTED beyond the rate.
        """
        if self.per_second is None:
            return
        now = time.monotonic()
        while self._accepted and now - self._accepted[0] >= 1.0:
            self._accepted.popleft()
        if len(self._accepted) >= self.per_second:
            self.refused += 1
            raise GRPCError(Status.RESOURCE_EXHAUSTED, f"more than {self.per_second} creations a second")
        self._accepted.append(now)

    def draw(self) -> tuple[float, bool]:
        """Seconds that the next start takes, and True if it fails."""
        seconds = 0.0
        if self.p50 is not None:
            sigma = math.log(self.p99 / self.p50) / NormalDist().inv_cdf(0.99)
            seconds = self._random.lognormvariate(math.log(self.p50), sigma)
        return seconds, self._random.random() < self.failures
