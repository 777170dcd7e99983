"""Output of commands: every line that reaches stdout or stderr passes here, where it is masked and escaped.

A reader that stops early (``| head``) or a closed terminal ends no run and changes no exit code. Characters that the
terminal's encoding lacks are shown as escapes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

from trace_bench.display.table import Table
from trace_bench.display.terminal import Screen, plain_lines, run_table_lines, terminal_lines
from trace_bench.display.text import clean_line, escape_block, escape_json
from trace_bench.secrets import known

_BOLD = re.compile("(\x1b\\[[01]m)")
"""The only commands to a terminal that this program uses: bold, and back to normal."""


def emit(text: str = "", *, strong: bool = False) -> None:
    """Print one line to stdout. `strong`: in bold on a terminal."""
    line = clean_line(text)
    at = screen() if strong else None
    _write(sys.stdout, at.strong(line) if at is not None else line)


def emit_block(text: str = "") -> None:
    """Print `text` to stdout with its line breaks and tabs."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """Print one line to stderr: a text that is not the result."""
    _write(sys.stderr, clean_line(text))


def note_block(text: str) -> None:
    """Print `text` to stderr with its line breaks and tabs."""
    _write(sys.stderr, text)


def emit_json(value: Any) -> None:
    """Print `value` as JSON to stdout."""
    _write(sys.stdout, escape_json(json.dumps(value, indent=2, ensure_ascii=False, default=str)))


def emit_table(table: Table, *, by: str = "") -> None:
    """Print a table: fitted to a terminal, in plain columns to a pipe.

    Args:
        by: a column whose cells become headings on a terminal, if it is the first one.
    """
    at = screen()
    sections: list[tuple[str, str]] = []
    if at is None:
        _write(sys.stdout, "\n".join(plain_lines(table)))
        return
    if by and table.header[0] == by:
        sections, table = [(row[0], "") for row in table.texts], table.without(by)
    _write(sys.stdout, "\n".join(terminal_lines(table, at, sections)))


def emit_run_table(table: Table, directions: Sequence[str | None], shared: Collection[str]) -> None:
    """Print a table of a run; see `trace_bench.display.terminal.run_table_lines`."""
    _write(sys.stdout, "\n".join(run_table_lines(table, screen(), directions, shared)))


def emit_sentence(text: str, *, strong: bool = False) -> None:
    """Print a sentence: in lines of a terminal's width, whole to a pipe."""
    at = screen()
    if at is None:
        emit(text)
        return
    for line in textwrap.wrap(clean_line(text), max(at.width, 20), subsequent_indent="" if strong else "  "):
        emit(line, strong=strong)


def emit_rows(table: Table) -> None:
    """Print a table on a terminal; to a pipe its rows alone, with a tab between cells and without empty cells at the
    end."""
    if screen() is None:
        for row in table.texts:
            _write(sys.stdout, "\t".join(row).rstrip("\t"))
    elif table.rows:
        emit_table(table)


def emit_pairs(pairs: Iterable[tuple[str, str | Sequence[str]]], *, indent: str = "") -> None:
    """Print a line for each name and its value. A value of several texts has a line for each, without the name from the
    second one on. Empty texts are left out."""
    lines = [
        ("" if place else clean_line(name, 80), text)
        for name, value in pairs
        for place, text in enumerate(filter(None, [value] if isinstance(value, str) else value))
    ]
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        emit(f"{indent}{name.ljust(width)}  {text}")


def screen() -> Screen | None:
    """The terminal that stdout is, or None."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return Screen(shutil.get_terminal_size().columns, takes_escapes(sys.stdout) and not os.environ.get("NO_COLOR"))


def takes_escapes(stream: TextIO) -> bool:
    """Return True if `stream` is a terminal that takes escapes."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _write(stream: TextIO, text: str) -> None:
    parts = _BOLD.split(known.text(text))
    parts[::2] = map(escape_block, parts[::2])
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(f"{''.join(parts)}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
