"""Ctrl-C, SIGTERM and SIGHUP, for commands whose jobs are to end in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from trace_bench.cancellation import Cancellation
from trace_bench.cli.displays import alert
from trace_bench.errors import ExitCode, Interrupted, TraceBenchError

_STOPPING = (
    "stopping: running jobs end in order and are collected, once model calls that may be paid already have been "
    "answered, for a minute at most; once more to kill them",
    "killing the running jobs; what they had is collected",
)


class RunInterrupted(TraceBenchError):
    """An `Interrupted` that is printed. Typer prints nothing of a KeyboardInterrupt, which `Interrupted` is."""

    exit_code = ExitCode.INTERRUPTED


@contextmanager
def stopping(sentence: str) -> Iterator[Cancellation]:
    """`StopOnSignals` that prints `sentence` at a signal; yields the request of the signals.

    Raises:
        RunInterrupted: for an `Interrupted`.
    """
    try:
        with StopOnSignals(lambda _: alert(sentence)) as stop:
            yield Cancellation(stop.wanted)
    except Interrupted as error:
        raise RunInterrupted(str(error)) from error


class StopOnSignals:
    """Counts Ctrl-C, SIGTERM and SIGHUP: the first one asks jobs to end in order, the second one kills them.

    A terminal that is closed may send SIGHUP twice, which counts once. Under ``nohup`` SIGHUP is ignored.

    Before the first call of `wanted`, nothing runs that could end in order (an image is built): a signal then ends the
    command. Later, each call of `wanted` reads which signals came. The handler alone is too late: the main thread may
    wait for a lock, and Python runs handlers only when it has the lock.

    Args:
        alert: prints what happens; called from a handler or any thread.
    """

    def __init__(self, alert: Callable[[str], None] = alert) -> None:
        self._alert = alert
        self._count = 0
        self._hung_up = False
        self._running = False
        self._before: dict[int, Any] = {}
        self._reading = threading.Lock()
        self._came = self._wake = -1

    def wanted(self) -> str | None:
        """The request of the signals: None (continue), ``"interrupted"`` (end in order) or ``"kill"``."""
        self._running = True
        self._count_signals()
        return (None, "interrupted")[self._count] if self._count < 2 else "kill"

    def __enter__(self) -> StopOnSignals:
        self._came, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        with self._reading:
            os.close(self._came)
            os.close(self._wake)
            self._came = -1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._running:
            raise KeyboardInterrupt
        self._count_signals()

    def _count_signals(self) -> None:
        """Count the signals that came. It waits for no lock, as the handler may have interrupted this very function."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            for number in self._numbers():
                if number in self._before and not (number == signal.SIGHUP and self._hung_up):
                    self._hung_up = self._hung_up or number == signal.SIGHUP
                    self._count += 1
                    if self._count <= len(_STOPPING):
                        self._alert(_STOPPING[self._count - 1])
        finally:
            self._reading.release()

    def _numbers(self) -> bytes:
        try:
            return os.read(self._came, 64) if self._came >= 0 else b""
        except BlockingIOError:
            return b""
