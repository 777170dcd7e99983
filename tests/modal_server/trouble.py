"""Trouble on demand: rules that make a call fail, hang, lose its reply or break in the middle.

For instance ``server.trouble.add(rpc="SandboxCreateV2", do=LoseReply())``, a creation that happens and whose caller
never hears of it, or ``add(rpc="SandboxListV2", do=Refuse("UNAVAILABLE"), after=2, times=3)``.
"""

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
from modal_proto import api_pb2


@dataclass(frozen=True)
class Refuse:
    """The call fails with this status before anything is done. `retry_after` (seconds) asks the client to wait and try
    again, as its throttling does."""

    status: str
    message: str = "trouble on demand"
    retry_after: float | None = None


@dataclass(frozen=True)
class LoseReply:
    """The call does its work; its caller gets `status` instead of the reply, after `seconds`."""

    status: str = "DEADLINE_EXCEEDED"
    seconds: float = 0.0


@dataclass(frozen=True)
class Delay:
    """The call waits `seconds` before it does its work."""

    seconds: float


@dataclass(frozen=True)
class Break:
    """A stream, of replies or of requests, is reset once it has carried `after_bytes` of data."""

    after_bytes: int = 0


Action = Refuse | LoseReply | Delay | Break


@dataclass
class Rule:
    rpc: str
    do: Action
    after: int = 0
    """Calls that pass before it."""
    times: int | None = 1
    """Calls that it hits; None for all."""
    when: Callable[[Any], bool] = lambda request: True
    """Only requests for which this is true, and only those are counted. A stream of requests is shown as None."""
    seen: int = 0
    hits: int = 0


class Trouble:
    """The rules of a server. Any thread may add."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(
        self,
        *,
        rpc: str,
        do: Action,
        after: int = 0,
        times: int | None = 1,
        when: Callable[[Any], bool] = lambda request: True,
    ) -> Rule:
        """A new rule; its `hits` say how often it struck."""
        rule = Rule(rpc, do, after, times, when)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def meet(self, rpc: str, request: Any) -> Meeting:
        """What strikes this call."""
        struck: list[Action] = []
        with self._lock:
            for rule in self._rules:
                if rule.rpc != rpc or not rule.when(request):
                    continue
                rule.seen += 1
                if rule.seen > rule.after and (rule.times is None or rule.hits < rule.times):
                    rule.hits += 1
                    struck.append(rule.do)
        return Meeting(struck)


@dataclass
class Meeting:
    """The actions that one call meets."""

    actions: list[Action]
    carried: int = 0

    async def before(self) -> None:
        for action in self.actions:
            if isinstance(action, Delay):
                await asyncio.sleep(action.seconds)
            if isinstance(action, Refuse):
                raise refusal(action.status, action.message, action.retry_after)

    async def after(self) -> None:
        for action in self.actions:
            if isinstance(action, LoseReply):
                await asyncio.sleep(action.seconds)
                raise GRPCError(Status[action.status], "trouble on demand: the reply is lost")

    def breaks(self, message: Any) -> bool:
        """Whether the stream ends here, `message` having gone over it."""
        self.carried += len(getattr(message, "data", b""))
        return any(isinstance(action, Break) and self.carried >= action.after_bytes for action in self.actions)


def refusal(status: str, message: str, retry_after: float | None = None) -> GRPCError:
    """The error, with the client's own retry policy in its details where `retry_after` is given."""
    details = [api_pb2.RPCRetryPolicy(retry_after_secs=retry_after)] if retry_after is not None else None
    return GRPCError(Status[status], message, details)


@dataclass
class Starts:
    """How creations go: their rate, how long a start takes, and how many fail.

    Start times are lognormal with median `p50` and 99th percentile `p99` (seconds); None is at once. `failures` is the
    share of starts that end in INTERNAL. More than `per_second` creations within any second are refused with
    RESOURCE_EXHAUSTED (None: no limit).
    """

    p50: float | None = None
    p99: float = 0.0
    failures: float = 0.0
    per_second: int | None = None
    retry_after: float | None = None
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
            raise refusal("RESOURCE_EXHAUSTED", f"more than {self.per_second} creations a second", self.retry_after)
        self._accepted.append(now)

    def draw(self) -> tuple[float, bool]:
        """Seconds that the next start takes, and whether it fails."""
        seconds = 0.0
        if self.p50 is not None:
            sigma = math.log(self.p99 / self.p50) / NormalDist().inv_cdf(0.99)
            seconds = self._random.lognormvariate(math.log(self.p50), sigma)
        return seconds, self._random.random() < self.failures
