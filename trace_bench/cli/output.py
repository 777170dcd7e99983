"""How commands print: JSON for programs, plain lines for pipes, and never a wrapped line in either."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from typing import Any, TextIO

from trace_bench.display.text import HIDDEN, escape_json
from trace_bench.secrets import known


def emit(text: str = "") -> None:
    """One line to stdout."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """One line to stderr: what is not the result."""
    _write(sys.stderr, text)


_OWN = re.compile("(\x1b\\[[01]m)")
"""The only orders to a terminal that are ours: bold and not."""


def emit_json(value: Any) -> None:
    """`value` as JSON to stdout; nothing in it can reach a terminal as a command."""
    emit(escape_json(json.dumps(value, indent=2, ensure_ascii=False, default=str)))


def harmless(text: str) -> str:
    """`text` with escapes for whatever gives a terminal orders, but for bold, or cannot be seen."""
    if HIDDEN.search(text) is None:
        return text
    parts = _OWN.split(text)
    parts[::2] = [HIDDEN.sub(lambda found: ascii(found[0])[1:-1], part) for part in parts[::2]]
    return "".join(parts)


def _write(stream: TextIO, text: str) -> None:
    """A reader who has had enough (``| head``), or a terminal that is closed, ends no run and changes no exit code.
    Letters that the terminal lacks are shown as escapes, and so is whatever could act on it: who prints has seen to
    that before, and this holds where one forgot. Secrets that this process knows are masked."""
    text = harmless(known.text(text))
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
