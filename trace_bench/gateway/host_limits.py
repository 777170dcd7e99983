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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.gateway.real import HostLimit

MINUTE = 60.0
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
        with self._state(patience=0.0) as file:
            if file is None:
                return _spread(BUSY_PAUSE)
            now = self._clock()
            window = _Window.read(file)
            window.advance(now, self._limit)
            limit = window.strictest()
            slot = self._slot(limit.concurrent) if limit.concurrent is not None else None
            if slot == -1:
                window.write(file)
                return _spread(SLOT_PAUSE)
            wait = window.wait(now, tokens, limit)
            if wait > 0:
                if slot is not None:
                    os.close(slot)
                window.write(file)
                return _spread(wait)
            second = window.take(now, tokens)
            window.write(file)
        return Permit(tokens, slot, lambda difference: self._correct(second, difference))

    def _correct(self, second: int, difference: int) -> None:
        with self._state(patience=PATIENCE) as file:
            if file is None:
                return
            now = self._clock()
            window = _Window.read(file)
            window.advance(now, self._limit)
            window.correct(now, second, difference)
            window.write(file)

    @contextmanager
    def _state(self, patience: float) -> Iterator[int | None]:
        """The locked file of counts; None if another process holds it for longer than `patience` seconds."""
        descriptor = os.open(self._folder / "counts", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + patience
            while not _locked(descriptor):
                if time.monotonic() >= until:
                    yield None
                    return
                time.sleep(0.002)
            yield descriptor
        finally:
            os.close(descriptor)

    def _slot(self, limit: int) -> int | None:
        """A locked descriptor of one of the calls at a time; -1 if `limit` of them are under way."""
        free: int | None = None
        taken = place = 0
        try:
            while taken < limit:
                path = self._folder / f"call-{place}"
                if free is not None and not path.exists():
                    break  # no process with a looser limit has used a file beyond this one
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if not _locked(descriptor):
                    taken += 1
                    os.close(descriptor)
                elif free is None:
                    free = descriptor
                else:
                    os.close(descriptor)
                place += 1
        except BaseException:
            if free is not None:
                os.close(free)
            raise
        if taken < limit:
            return free
        if free is not None:
            os.close(free)
        return -1


class Permit:
    """Permission to send one request. Call `done` when the answer has come, or when none will come.

    Also a context manager: leaving it without `done` counts the estimate.
    """

    def __init__(
        self, tokens: int = 0, slot: int | None = None, correct: Callable[[int], None] = lambda difference: None
    ) -> None:
        self._tokens = tokens
        self._slot = slot
        self._correct = correct
        self._lock = threading.Lock()
        self._over = False

    def done(self, tokens: int | None = None) -> None:
        """End the request, which used `tokens` tokens; None if unknown. May be called twice."""
        with self._lock:
            if self._over:
                return
            self._over = True
        if self._slot is not None:
            os.close(self._slot)
        if tokens is not None and tokens != self._tokens:
            self._correct(tokens - self._tokens)

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, *exc: object) -> None:
        self.done()


@dataclass
class _Window:
    """The requests of each second, and the limits in use.

    Attributes:
        seconds: number of requests and their tokens, by second.
        limits: time of the last request under a limit, by the limit's name and value.
    """

    seconds: dict[int, tuple[int, int]] = field(default_factory=dict)
    limits: dict[tuple[str, float], float] = field(default_factory=dict)

    @classmethod
    def read(cls, file: int) -> _Window:
        """The counts in `file`; empty if a process died while it wrote them."""
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            plain = json.loads(os.pread(file, os.fstat(file).st_size, 0))
            return cls(
                {int(second): (int(asked), int(tokens)) for second, asked, tokens in plain["seconds"]},
                {(str(name), float(value)): float(at) for name, value, at in plain["limits"]},
            )
        return cls()

    def write(self, file: int) -> None:
        plain = {
            "seconds": [[second, *counts] for second, counts in self.seconds.items()],
            "limits": [[name, value, at] for (name, value), at in self.limits.items()],
        }
        data = json.dumps(plain).encode("ascii")
        os.pwrite(file, data, 0)
        os.ftruncate(file, len(data))

    def advance(self, now: float, limit: HostLimit) -> None:
        """Note the use of `limit`, and remove old counts. Counts after `now` (the clock was set back) move to now."""
        for name in ("requests_per_minute", "tokens_per_minute", "concurrent"):
            value = getattr(limit, name)
            if value is not None:
                self.limits[name, float(value)] = now
        self.limits = {key: min(at, now) for key, at in self.limits.items() if at > now - MINUTE}
        oldest = now - max([MINUTE, *(_span(value)[1] for name, value in self.limits if name == "requests_per_minute")])
        kept: dict[int, tuple[int, int]] = {}
        for second, counts in self.seconds.items():
            if second + 1 > oldest:
                at = min(second, math.floor(now))
                asked, tokens = kept.get(at, (0, 0))
                kept[at] = (asked + counts[0], tokens + counts[1])
        self.seconds = kept

    def strictest(self) -> HostLimit:
        def least(wanted: str) -> float | None:
            return min((value for name, value in self.limits if name == wanted), default=None)

        concurrent = least("concurrent")
        return HostLimit(
            least("requests_per_minute"), least("tokens_per_minute"), None if concurrent is None else int(concurrent)
        )

    def wait(self, now: float, tokens: int, limit: HostLimit) -> float:
        """Seconds until there is room for a request of `tokens` tokens; 0 if there is room now."""
        waits = [0.0]
        if limit.requests_per_minute is not None:
            most, span = _span(limit.requests_per_minute)
            waits.append(self._room(now, 0, 1, most, span))
        if limit.tokens_per_minute is not None:
            # A request that is larger than the limit itself is sent alone.
            waits.append(self._room(now, 1, min(tokens, limit.tokens_per_minute), limit.tokens_per_minute, MINUTE))
        return max(waits)

    def _room(self, now: float, which: int, wanted: float, most: float, span: float) -> float:
        """Seconds until at most ``most - wanted`` are left within the last `span` seconds."""
        inside = sorted(second for second in self.seconds if second + 1 > now - span)
        used = sum(self.seconds[second][which] for second in inside)
        until = now
        for second in inside:
            if used + wanted <= most:
                break
            used -= self.seconds[second][which]
            until = second + 1 + span
        return max(0.0, until - now)

    def take(self, now: float, tokens: int) -> int:
        """Count a request; returns the second it is counted in."""
        second = math.floor(now)
        asked, before = self.seconds.get(second, (0, 0))
        self.seconds[second] = (asked + 1, before + tokens)
        return second

    def correct(self, now: float, second: int, difference: int) -> None:
        """Count the error of an estimate: tokens beyond it count as of now, unused ones are removed from `second`."""
        at = second if difference < 0 else math.floor(now)
        if at in self.seconds or difference > 0:
            asked, tokens = self.seconds.get(at, (0, 0))
            self.seconds[at] = (asked, max(0, tokens + difference))


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
