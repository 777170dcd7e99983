"""The first signal ends a run in order, the second kills, wherever the main thread is."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from trace_bench.cli.signals import StopOnSignals


def test_signals_are_counted_and_said() -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with StopOnSignals(said.append) as stop:
        assert stop.wanted() is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wanted() == "interrupted" and said[0].startswith("stopping: ") and len(said) == 1
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted() == "kill" and said[1].startswith("killing ")
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted() == "kill" and len(said) == 2
    assert signal.getsignal(signal.SIGTERM) is before and signal.set_wakeup_fd(-1) == -1
    assert stop.wanted() == "kill", "it can be asked later"


def test_before_anybody_asks_a_signal_ends_the_command() -> None:
    with pytest.raises(KeyboardInterrupt), StopOnSignals([].append):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)


def test_a_terminal_that_is_closed_says_so_twice_and_is_heard_once() -> None:
    said: list[str] = []
    with StopOnSignals(said.append) as stop:
        assert stop.wanted() is None
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.wanted() == "interrupted" and len(said) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wanted() == "kill"


def test_under_nohup_a_closed_terminal_says_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopOnSignals([].append) as stop:
            assert stop.wanted() is None
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.wanted() is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_jobs_hear_of_a_signal_while_the_main_thread_waits() -> None:
    """The kernel may give the signal to another thread, or to the main one an instant before it waits: Python's handler
    then comes only once the main thread goes on."""
    said: list[str] = []
    heard: list[str | None] = []
    over = threading.Lock()
    over.acquire()

    def job() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        end = time.monotonic() + 10
        while not (wanted := stop.wanted()) and time.monotonic() < end:
            time.sleep(0.02)
        heard.append(wanted)
        over.release()

    with StopOnSignals(said.append) as stop:
        assert stop.wanted() is None
        thread = threading.Thread(target=job)
        thread.start()
        over.acquire()
        thread.join()
    assert heard == ["interrupted"] and len(said) == 1
