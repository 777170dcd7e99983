"""Limits that all processes of a host share for one provider: requests and tokens a minute, calls at a time.

A provider counts by key, for all processes of the host, so the counts are in files, under ``flock``. For each key there
is one file with the requests of each second of the last minute, and one file for each call at a time. The holder of a
call keeps its file locked; the kernel releases the lock when that process dies.

In every span of a minute there are at most so many requests, and at most so many tokens plus the errors of the
estimates. Where configs name different limits for one key, the strictest of the last minute holds for all. A config
without limits is neither held back nor counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.gateway.real import HostLimit

MINUTE = 60.0
LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent")
SLOT_PAUSE = 0.1
"""Seconds after which to ask again for a call at a time. The end of a call is not announced."""
BUSY_PAUSE = 0.01
"""Seconds after which to ask again while another process holds the file."""
PATIENCE = 0.5
"""Seconds that `Permit.done` waits for the file. A process that was stopped while it held the file blocks no other."""


class HostLimits:
    """The limits of one key. May be used by many threads and after a fork.

    Args:
        folder: of the files; all processes of a host must use the same. Created if missing.
        key: what the provider counts by (provider, address and key of the account); only a hash of it is stored.
        clock: seconds, the same for all processes of the host.

    Raises:
        OSError: from all methods: the folder cannot be made or written.
    """

    def __init__(
        self, folder: Path, key: str, limit: HostLimit, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._clock = clock
        name = hashlib.sha256(b"trace-bench/limits/1\n" + key.encode("utf-8", "surrogatepass")).hexdigest()
        self._folder = folder / name[:32]

    def ask(self, tokens: int) -> Permit | float:
        """A permit for one request of about `tokens` tokens, answer included, or the seconds until the next attempt.

        Never blocks. There is no queue: capacity that another request frees goes to the first that asks.
        """
        if self._limit == HostLimit():
            return Permit()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._window(patience=0.0) as window:
            if window is None:
                return _spread(BUSY_PAUSE)
            limit = window.strictest()
            wait = window.wait(tokens, limit)
            if wait > 0:
                return _spread(wait)
            slot = self._slot(limit.concurrent) if limit.concurrent is not None else None
            if slot == -1:
                return _spread(SLOT_PAUSE)
            second = window.take(tokens)

        def end(used: int | None) -> None:
            if slot is not None:
                os.close(slot)
            if used is not None and used != tokens:
                with self._window(patience=PATIENCE) as window:
                    if window is not None:
                        window.correct(second, used - tokens)

        return Permit(end)

    @contextmanager
    def _window(self, patience: float) -> Iterator[_Window | None]:
        """The counts of this key, stored afterwards; None if another process holds their file for longer than
        `patience` seconds."""
        file = os.open(self._folder / "counts", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + patience
            while not _locked(file):
                if time.monotonic() >= until:
                    yield None
                    return
                time.sleep(0.002)
            window = _Window.read(file, self._clock(), self._limit)
            yield window
            window.write(file)
        finally:
            os.close(file)

    def _slot(self, limit: int) -> int:
        """A locked descriptor of one of the calls at a time; -1 if `limit` of them are under way."""
        free, taken, number = -1, 0, 0
        try:
            while taken < limit:
                path = self._folder / f"call-{number}"
                if free >= 0 and not path.exists():
                    break  # no process with a looser limit has used a file beyond this one
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                is_free = _locked(descriptor)
                taken += not is_free
                if is_free and free < 0:
                    free = descriptor
                else:
                    os.close(descriptor)
                number += 1
        except OSError:
            taken = limit
            raise
        finally:
            if free >= 0 and taken >= limit:
                os.close(free)
        return -1 if taken >= limit else free


class Permit:
    """Permission to send one request. Call `done` when the answer has come, or when none will come.

    Also a context manager: leaving it without `done` counts the estimate.

    Args:
        end: called once, with the tokens that were used.
    """

    def __init__(self, end: Callable[[int | None], None] | None = None) -> None:
        self._end = end

    def done(self, tokens: int | None = None) -> None:
        """End the request, which used `tokens` tokens; None if unknown. May be called twice."""
        end, self._end = self._end, None
        if end is not None:
            end(tokens)

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, *exc: object) -> None:
        self.done()


@dataclass
class _Window:
    """The requests of each second up to now, and the limits in use.

    Attributes:
        now: seconds by the shared clock.
        seconds: number of requests and their tokens, by second.
        limits: time of the last request under a limit, by the limit's name and value.
    """

    now: float
    seconds: dict[int, tuple[int, int]] = field(default_factory=dict)
    limits: dict[tuple[str, float], float] = field(default_factory=dict)

    @classmethod
    def read(cls, file: int, now: float, limit: HostLimit) -> _Window:
        """The counts in `file` that still matter at `now` for a request under `limit`."""
        window = cls(now)
        # A process that died while it wrote leaves a file that cannot be read.
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            plain = json.loads(os.pread(file, os.fstat(file).st_size, 0))
            window = cls(
                now,
                {int(second): (int(requests), int(tokens)) for second, requests, tokens in plain["seconds"]},
                {(str(name), float(value)): float(at) for name, value, at in plain["limits"]},
            )
        for name in LIMITS:
            value = getattr(limit, name)
            if value is not None:
                window.limits[name, float(value)] = now
        # Counts after `now` count as of now: the clock was set back.
        window.limits = {key: min(at, now) for key, at in window.limits.items() if at > now - MINUTE}
        spans = [_span(value)[1] for name, value in window.limits if name == "requests_per_minute"]
        oldest = now - max([MINUTE, *spans])
        stored, window.seconds = window.seconds, {}
        for second, counts in stored.items():
            if second + 1 > oldest:
                window._count(min(second, math.floor(now)), *counts)
        return window

    def write(self, file: int) -> None:
        """Store the counts in `file`."""
        plain = {
            "seconds": [[second, *counts] for second, counts in self.seconds.items()],
            "limits": [[name, value, at] for (name, value), at in self.limits.items()],
        }
        data = json.dumps(plain).encode("ascii")
        os.pwrite(file, data, 0)
        os.ftruncate(file, len(data))

    def strictest(self) -> HostLimit:
        """The strictest of all limits in use."""
        least: dict[str, float] = {}
        for name, value in self.limits:
            least[name] = min(value, least.get(name, value))
        concurrent = least.get("concurrent")
        return HostLimit(
            least.get("requests_per_minute"),
            least.get("tokens_per_minute"),
            None if concurrent is None else int(concurrent),
        )

    def wait(self, tokens: int, limit: HostLimit) -> float:
        """Seconds until there is room for a request of `tokens` tokens; 0 if there is room now."""
        waits = [0.0]
        if limit.requests_per_minute is not None:
            most, span = _span(limit.requests_per_minute)
            waits.append(self._room(0, 1, most, span))
        if limit.tokens_per_minute is not None:
            # A request that is larger than the limit itself is sent alone.
            waits.append(self._room(1, min(tokens, limit.tokens_per_minute), limit.tokens_per_minute, MINUTE))
        return max(waits)

    def _room(self, which: int, wanted: float, most: float, span: float) -> float:
        """Seconds until at most ``most - wanted`` are left within the last `span` seconds."""
        inside = sorted(second for second in self.seconds if second + 1 > self.now - span)
        used = sum(self.seconds[second][which] for second in inside)
        until = self.now
        for second in inside:
            if used + wanted <= most:
                break
            used -= self.seconds[second][which]
            until = second + 1 + span
        return max(0.0, until - self.now)

    def take(self, tokens: int) -> int:
        """Count a request; returns the second it is counted in."""
        second = math.floor(self.now)
        self._count(second, 1, tokens)
        return second

    def correct(self, second: int, difference: int) -> None:
        """Count the error of an estimate: tokens beyond it count as of now, unused ones are removed from `second`."""
        if difference > 0:
            self._count(math.floor(self.now), 0, difference)
        elif second in self.seconds:
            self._count(second, 0, max(difference, -self.seconds[second][1]))

    def _count(self, second: int, requests: int, tokens: int) -> None:
        before = self.seconds.get(second, (0, 0))
        self.seconds[second] = (before[0] + requests, before[1] + tokens)


def _span(per_minute: float) -> tuple[int, float]:
    """A rate as a whole number of requests in a number of seconds, a minute or more, rounded down."""
    most = max(1, math.floor(per_minute))
    return most, max(MINUTE, MINUTE * most / per_minute)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spread(seconds: float) -> float:
    """`seconds` and a random addition, so that waiting processes do not come back at the same time."""
    return seconds + random.uniform(0.0, min(1.0, 0.25 * seconds + 0.005))
