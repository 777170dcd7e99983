"""How commands print: JSON for programs, plain lines for pipes, and never a wrapped line in either."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from typing import Any, TextIO

from trace_bench.artifacts.secrets import known


def emit(text: str = "") -> None:
    """One line to stdout."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """One line to stderr: what is not the result."""
    _write(sys.stderr, text)


_NOT_SHOWN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that move a cursor or turn text around. In JSON they can only stand inside a string."""


def emit_json(value: Any) -> None:
    """`value` as JSON to stdout; nothing in it can reach a terminal as a command."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    emit(_NOT_SHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _write(stream: TextIO, text: str) -> None:
    """A reader who has had enough (``| head``), or a terminal that is closed, ends neither a run nor changes its exit
    code. Letters that the terminal
    lacks are shown as escapes, and secrets that this process knows are masked."""
    text = known.text(text)
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
