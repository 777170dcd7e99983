"""Engines that are unreachable: jobs wait for the only engine, and move to another one of several."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from trace_bench.cancellation import Cancellation
from trace_bench.errors import Interrupted, TraceBenchError
from trace_bench.sandbox.base import Backend
from trace_bench.sandbox.errors import EngineGone, EngineRefused
from trace_bench.sandbox.labels import JOB, OWNER, RUN, owner
from trace_bench.scheduling.allocation import Allocator
from trace_bench.scheduling.hosts import PATIENCE

INTERVAL = 1.0
"""Seconds between two attempts to reach an engine."""
LAST_LOOK = 3.0
"""Seconds that a run which is over waits for hosts that may have sandboxes of its jobs."""
REST = 60.0
"""Seconds without jobs for a host that could make no sandbox (its disk is full, for example). Doubled after each
further failure without a sandbox in between, …"""
LONGEST_REST = 960.0
"""… up to this."""
BROKEN = 3
"""Sandboxes in a row that ended on a host before their first message, after which it rests."""


class EngineOutage:
    """Waits for the only engine of a run.

    Args:
        stop: ends the wait.
    """

    def __init__(self, backend: Backend, stop: Cancellation, *, patience: float = PATIENCE) -> None:
        self._backend = backend
        self._stop = stop
        self._patience = patience
        self._lock = threading.Lock()

    def wait(self, error: TraceBenchError, run_id: str, job_id: str) -> None:
        """Wait until the engine answers again, and remove the sandboxes that it has of the job.

        Raises:
            TraceBenchError: `error`, if the engine does not come back in time. EngineRefused: it is back, and refuses
                to list or remove them.
            Interrupted: the user stops the run.
        """
        deadline = time.monotonic() + self._patience
        while True:
            with self._lock:
                # Checked under the lock: each waiting job may have waited until all others had their answers.
                if self._stop.cancelled:
                    raise Interrupted(f"interrupted while the engine was gone: {error}") from error
                try:
                    for sandbox in self._backend.find({RUN: run_id, JOB: job_id, OWNER: owner()}):
                        sandbox.remove()
                    return
                except EngineRefused:
                    raise
                except TraceBenchError:
                    if time.monotonic() > deadline:
                        raise error from None
            self._stop.wait(INTERVAL)


class LostHosts:
    """Unreachable hosts of a run with several. A thread tries them again. Once a host is back, the sandboxes of jobs
    that have moved to other hosts are removed from it, and it gets jobs again.

    Args:
        on_back: called with the name of a host that is back.
        patience: seconds that the run may be idle because all hosts are unreachable.
    """

    def __init__(
        self,
        backend: Backend,
        allocator: Allocator,
        run_id: str,
        *,
        on_back: Callable[[str], None] = lambda _: None,
        patience: float | None = None,
    ) -> None:
        self._backend = backend
        self._allocator = allocator
        self._run_id = run_id
        self._on_back = on_back
        self._patience = PATIENCE if patience is None else patience
        self._left: dict[str, set[str]] = {}
        self._resting_until: dict[str, float] = {}
        self._rests: Counter[str] = Counter()
        self._started: dict[str, set[str]] = {}
        self._failed_starts: Counter[str] = Counter()
        self._error: TraceBenchError | None = None
        self._idle_since: float | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def lost(self, host: str, job_id: str, error: TraceBenchError) -> bool:
        """Record that the job has left `host`, which is unreachable or can make no sandbox.

        A host that answers rests for a minute. Returns whether the host was not known to be lost.
        """
        with self._lock:
            self._error = error
            news = host not in self._left
            if news and not isinstance(error, EngineGone):
                rest = min(LONGEST_REST, REST * float(1 << min(self._rests[host], 30)))
                self._resting_until[host] = time.monotonic() + rest
                self._rests[host] += 1
            self._left.setdefault(host, set()).add(job_id)
            if news:
                self._allocator.mark_lost(host)
            if self._thread is None:
                self._thread = threading.Thread(target=self._try_again, name="lost hosts", daemon=True)
                self._thread.start()
            return news

    def start_failed(self, host: str, suite: str) -> bool:
        """Record that a sandbox of `suite` ended on `host` before its first message; returns whether the host counts
        as lost.

        A host that starts nothing always has room, so it would fail all jobs. If no other host has started a sandbox of
        that suite either, the suite may be the cause, and the host counts as working.
        """
        with self._lock:
            self._failed_starts[host] += 1
            elsewhere = self._started.get(suite, set()) - {host}
            return self._failed_starts[host] >= BROKEN and bool(elsewhere)

    def start_succeeded(self, host: str, suite: str) -> None:
        """Record that a sandbox of `suite` has sent its first message on `host`."""
        with self._lock:
            self._started.setdefault(suite, set()).add(host)
            self._failed_starts.pop(host, None)
            self._rests.pop(host, None)

    def check(self, *, blocked: bool) -> None:
        """End the run if it has been blocked for too long.

        Args:
            blocked: no job runs, and none can start before a host is back.

        Raises:
            TraceBenchError: what made the last host unreachable.
        """
        with self._lock:
            if not blocked or not self._left or self._error is None:
                self._idle_since = None
                return
            now = time.monotonic()
            self._idle_since = now if self._idle_since is None else self._idle_since
            if now - self._idle_since > self._patience:
                raise self._error

    def close(self) -> None:
        """Stop trying."""
        self._closed.set()

    def last_look(self) -> None:
        """Wait a little for lost hosts at the end of a run, and remove sandboxes of jobs that moved to other hosts.

        No later command would look for them.
        """
        self.close()
        end = time.monotonic() + LAST_LOOK
        while True:
            with self._lock:
                left = {host: frozenset(jobs) for host, jobs in self._left.items()}
            if not left:
                return
            with contextlib.suppress(TraceBenchError):
                back = self._answering(left)
                self._sweep(back)
                with self._lock:
                    for host in back:
                        self._left.pop(host, None)
            if time.monotonic() > end:
                return
            time.sleep(INTERVAL / 4)

    def _try_again(self) -> None:
        while not self._closed.wait(INTERVAL):
            try:
                with self._lock:
                    lost = {host: frozenset(jobs) for host, jobs in self._left.items() if self._may_be_back(host)}
                lost = self._answering(lost)
                if lost:
                    self._sweep(lost)
            except TraceBenchError:
                continue
            if self._closed.is_set():
                return  # the run has ended meanwhile
            for host, jobs in lost.items():
                with self._lock:
                    if self._left.get(host, set()) != jobs:
                        continue  # another job has left it meanwhile
                    del self._left[host]
                    self._allocator.mark_back(host)
                self._on_back(host)
            with self._lock:
                if not self._left:
                    self._thread = None
                    return

    def _answering(self, lost: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        names = {host.name for host in self._backend.hosts()}
        return {host: jobs for host, jobs in lost.items() if host in names}

    def _may_be_back(self, host: str) -> bool:
        return self._resting_until.get(host, 0.0) <= time.monotonic()

    def _sweep(self, lost: Mapping[str, frozenset[str]]) -> None:
        for sandbox in self._backend.find({RUN: self._run_id, OWNER: owner()}):
            if sandbox.labels.get(JOB) in lost.get(sandbox.host, ()):
                sandbox.remove()
