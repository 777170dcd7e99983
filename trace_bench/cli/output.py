"""How commands print: JSON for programs, plain lines for pipes, and never a wrapped line in either."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO


def emit(text: str = "") -> None:
    """One line to stdout."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """One line to stderr: what is not the result."""
    _write(sys.stderr, text)


def emit_json(value: Any) -> None:
    """`value` as JSON to stdout."""
    emit(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _write(stream: TextIO, text: str) -> None:
    """A reader who has had enough (``| head``) ends neither a run nor changes its exit code. Letters that the terminal
    lacks are shown as escapes."""
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
