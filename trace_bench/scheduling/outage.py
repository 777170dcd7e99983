"""Engines that have gone, and may come back: jobs wait for the only one, and move on from one of several."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from trace_bench.errors import Interrupted, TraceBenchError
from trace_bench.sandbox.base import Backend
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.labels import JOB, OWNER, RUN, owner

if TYPE_CHECKING:
    from trace_bench.scheduling.placement import Placement

PATIENCE = 120.0
"""Seconds that an engine may be gone. Restarting one takes a few; an upgrade about a minute."""
INTERVAL = 1.0
LAST_LOOK = 3.0
"""Seconds that a run which is over waits for hosts that may have sandboxes of its jobs."""
REST = 60.0
"""Seconds for which a host has no jobs that could make no sandbox (its disk is full, say): that may be over by then.
Twice as long after each further time with no sandbox in between, …"""
LONGEST_REST = 960.0
"""… up to this."""
BROKEN = 3
"""Sandboxes in a row that ended on a host before they spoke, after which it rests."""


class Outage:
    """One per run: its jobs wait together.

    Args:
        stop_wanted: waiting ends when the user has had enough.
    """

    def __init__(self, backend: Backend, stop_wanted: Callable[[], str | None], *, patience: float = PATIENCE) -> None:
        self._backend = backend
        self._stop_wanted = stop_wanted
        self._patience = patience
        self._lock = threading.Lock()

    def wait(self, error: TraceBenchError, run_id: str, job_id: str) -> None:
        """Return once the engine answers again and has nothing of the job any more: what could not be removed while
        it was gone, is now.

        Raises:
            TraceBenchError: `error`, after the engine was gone too long.
            Interrupted: the user wants it to end.
        """
        deadline = time.monotonic() + self._patience
        while True:
            with self._lock:
                # Here, and not before: each that waits may have waited for an answer to all others.
                if self._stop_wanted() is not None:
                    raise Interrupted(f"interrupted while the engine was gone: {error}") from error
                try:
                    for sandbox in self._backend.find({RUN: run_id, JOB: job_id, OWNER: owner()}):
                        sandbox.remove()
                    return
                except TraceBenchError:
                    if time.monotonic() > deadline:
                        raise error from None
            time.sleep(INTERVAL)


class LostHosts:
    """Hosts, of several, that do not answer. They are tried again in the background; one that is back is rid of the
    sandboxes of jobs that have moved on, and then has jobs again.

    Args:
        on_back: called with the name of a host that is.
        patience: seconds in which nothing can be done for want of hosts, before the run ends.
    """

    def __init__(
        self,
        backend: Backend,
        placement: Placement,
        run_id: str,
        *,
        on_back: Callable[[str], None] = lambda _: None,
        patience: float | None = None,
    ) -> None:
        self._backend = backend
        self._placement = placement
        self._run_id = run_id
        self._on_back = on_back
        self._patience = PATIENCE if patience is None else patience
        self._left: dict[str, set[str]] = {}
        self._rests_until: dict[str, float] = {}
        self._rests: Counter[str] = Counter()
        self._started: dict[str, set[str]] = {}
        self._started_none: Counter[str] = Counter()
        self._error: TraceBenchError | None = None
        self._idle_since: float | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def lost(self, host: str, job_id: str, error: TraceBenchError) -> bool:
        """`host` does not answer, or can make no sandbox, and the job has left it; returns whether that is news of the
        host. One that answers is left alone for a minute."""
        with self._lock:
            self._error = error
            news = host not in self._left
            if news and not isinstance(error, EngineGone):
                rest = min(LONGEST_REST, REST * float(1 << min(self._rests[host], 30)))
                self._rests_until[host] = time.monotonic() + rest
                self._rests[host] += 1
            self._left.setdefault(host, set()).add(job_id)
            if news:
                self._placement.lost(host)
            if self._thread is None:
                self._thread = threading.Thread(target=self._try_again, name="lost hosts", daemon=True)
                self._thread.start()
            return news

    def started_none(self, host: str, suite: str) -> bool:
        """A sandbox of a job of `suite` has ended on `host` before it spoke; returns whether it is one too many in a
        row, so that the host is to be taken for `lost`: one that starts nothing has room for everybody.

        Where no other host has started one of that suite either, it may be the suite's own trouble.
        """
        with self._lock:
            self._started_none[host] += 1
            elsewhere = self._started.get(suite, set()) - {host}
            return self._started_none[host] >= BROKEN and bool(elsewhere)

    def started_one(self, host: str, suite: str) -> None:
        """A sandbox of a job of `suite` has spoken on `host`."""
        with self._lock:
            self._started.setdefault(suite, set()).add(host)
            self._started_none.pop(host, None)
            self._rests.pop(host, None)

    def check(self, *, hopeless: bool) -> None:
        """
        Args:
            hopeless: nothing runs, and nothing can be placed before a host is back.

        Raises:
            TraceBenchError: it has been so for too long.
        """
        with self._lock:
            if not hopeless or not self._left or self._error is None:
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
        """Once nothing runs any more: wait a little for hosts that are lost, for they may have sandboxes of jobs that
        moved on, and nobody would look for those later."""
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
                        continue  # another one has left it meanwhile
                    del self._left[host]
                    self._placement.back(host)
                self._on_back(host)
            with self._lock:
                if not self._left:
                    self._thread = None
                    return

    def _answering(self, lost: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        names = {host.name for host in self._backend.hosts()}
        return {host: jobs for host, jobs in lost.items() if host in names}

    def _may_be_back(self, host: str) -> bool:
        return self._rests_until.get(host, 0.0) <= time.monotonic()

    def _sweep(self, lost: Mapping[str, frozenset[str]]) -> None:
        for sandbox in self._backend.find({RUN: self._run_id, OWNER: owner()}):
            if sandbox.labels.get(JOB) in lost.get(sandbox.host, ()):
                sandbox.remove()
