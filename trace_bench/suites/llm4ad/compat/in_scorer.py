"""Runs a candidate's source in this very process, which is a scorer. Nothing keeps it from writing its own score: jobs
that ask for it (``execute_in_scorer``) are unprotected, and no other comes here."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from trace_bench.worker.problem import CandidateError


class _Late(BaseException):
    """No `Exception`, which an evaluator would take for the candidate's."""


def loaded(source: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of `source`.

    Raises:
        CandidateError: it does not run, or defines none.
    """
    names: dict[str, Any] = {"__name__": "candidate"}
    try:
        exec(compile(source, "<candidate>", "exec"), names)
    except (Exception, SystemExit) as error:
        raise CandidateError("compile", f"{type(error).__name__}: {error}") from error
    if not callable(found := names.get(entry)):
        raise CandidateError("compile", f"the program defines no function {entry}")
    return found  # type: ignore[no-any-return]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(("trace_bench.", "contextlib"))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends what runs inside after `seconds`, where this is the main thread; what it raises is the candidate's.

    Raises:
        CandidateError: it took longer, or raised.
    """
    alarm = threading.current_thread() is threading.main_thread()

    def late(number: int, frame: FrameType | None) -> None:
        """Interrupt what runs. What is ours comes to its end by itself, or calls what the next alarm interrupts."""
        if frame is None or _is_ours(frame):
            return
        sys.settrace(lambda *_: None)  # new calls are not traced
        while frame is not None and not _is_ours(frame):
            frame.f_trace = again
            frame = frame.f_back
        raise _Late

    def again(frame: FrameType, event: str, argument: object) -> Any:
        """At the next line of whatever has caught it."""
        if event == "line":
            raise _Late
        return again

    before, tracer = signal.signal(signal.SIGALRM, late) if alarm else None, sys.gettrace()
    if alarm:
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)
    try:
        yield
    except _Late:
        raise CandidateError("timeout", f"the evaluation took more than {seconds:g} s") from None
    except CandidateError:
        raise
    except (Exception, SystemExit) as error:
        raise CandidateError("call", f"{type(error).__name__}: {error}") from error
    finally:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.settrace(tracer)
            signal.signal(signal.SIGALRM, before)
