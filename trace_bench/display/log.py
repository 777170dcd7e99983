"""The log of the host: standard `logging`, one line per record, in the form ``event key=value …``.

A module logs with its own logger, ``logging.getLogger(__name__)``, and writes the message with `entry`. A run keeps its
records in ``meta/controller.log``, and ``-vv`` prints them on stderr. Lines are masked and escaped as all text that
leaves the program. A log that cannot be written ends no run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trace_bench.display.text import clean_line

PACKAGE = "trace_bench"
_FIELD = 400
"""Characters of one value."""
MOST_PENDING = 10_000


def entry(event: str, **values: Any) -> str:
    """A message: the event, and its values by name. None is left out, and a text with blanks is quoted.

    >>> entry("host.lost", host="gpu 1", jobs=2, why=None)
    'host.lost host="gpu 1" jobs=2'
    """
    return " ".join([event, *(f"{name}={_value(value)}" for name, value in values.items() if value is not None)])


@contextmanager
def logged_to_file(path: Path) -> Iterator[None]:
    """Append the records of this package to the file at `path` while the block runs."""
    try:
        file = path.open("a", encoding="utf-8")
    except OSError:
        yield
        return
    with file:

        def write(line: str) -> None:
            file.write(f"{line}\n")
            file.flush()

        with logged_to(write):
            yield


@contextmanager
def logged_to(write: Callable[[str], object]) -> Iterator[None]:
    """Give `write` each record of this package, from level INFO on, as a line, while the block runs."""
    logger, handler = logging.getLogger(PACKAGE), _Lines(write)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def logged_aside(write: Callable[[str], object]) -> Iterator[None]:
    """As `logged_to`, with `write` called from a thread of its own.

    For a terminal, which may stand still: the threads that log keep sandboxes alive, and must not wait for it. When
    `MOST_PENDING` lines are pending, further ones are dropped.
    """
    pending: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def work() -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            while (line := pending.get()) is not None:
                write(line)

    thread = threading.Thread(target=work, name="log", daemon=True)
    thread.start()
    try:
        with logged_to(lambda line: pending.put(line) if pending.qsize() < MOST_PENDING else None):
            yield
    finally:
        pending.put(None)
        thread.join()


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            message += entry("", error=f"{type(error).__name__}: {error}")
        module = record.name.removeprefix(f"{PACKAGE}.")
        try:
            self._write(clean_line(f"{stamp}.{int(record.msecs):03}Z {record.levelname} {module}: {message}"))
        except (OSError, ValueError):  # the disk is full, or the file was closed
            return


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, separators=(",", ":"))
    text = text if len(text) <= _FIELD else text[: _FIELD - 1] + "…"
    is_plain = not isinstance(value, str) or (text and not set(text) & set(' "='))
    return text if is_plain else json.dumps(text, ensure_ascii=False)
