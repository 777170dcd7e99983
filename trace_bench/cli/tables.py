"""Tables on stdout: fitted to a terminal, plain columns in a pipe."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TextIO

from trace_bench.analysis.render import NOTHING, Screen, aligned, cut, framed
from trace_bench.cli.output import emit


def emit_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Collection[str] = (),
    *,
    elastic: Mapping[str, int] = NOTHING,
    spare: Sequence[str] = (),
    by: str = "",
) -> None:
    """`rows` below `header`; columns named in `numeric` are flush right. Cells are printable already.

    Args:
        elastic, spare: what may be cut, or left out, where a terminal is too narrow; see `render.fitted`.
        by: the first column, whose cells become headings on a terminal if it has this name.
    """
    at = screen()
    if at is None:
        text = aligned(header, rows, numeric)
    elif header[0] == by:
        heads = [at.strong(cut(row[0], at.width)) for row in rows]
        rest = [row[1:] for row in rows]
        text = framed(header[1:], rest, numeric, screen=at, elastic=elastic, spare=spare, sections=heads)
    else:
        text = framed(header, rows, numeric, screen=at, elastic=elastic, spare=spare)
    emit(text.rstrip("\n"))


def emit_sentence(text: str, *, strong: bool = False) -> None:
    """A sentence: on a terminal in lines of its width, in a pipe whole."""
    at = screen()
    if at is None:
        emit(text)
        return
    for line in textwrap.wrap(text, max(at.width, 20), subsequent_indent="" if strong else "  "):
        emit(at.strong(line) if strong else line)


def emit_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    elastic: Mapping[str, int] = NOTHING,
    spare: Sequence[str] = (),
) -> None:
    """`rows` below `header` on a terminal; in a pipe without it, with tabs between the cells that a row has."""
    at = screen()
    if at is None:
        for row in rows:
            emit("\t".join(row))
        return
    full = [(*row, *[""] * (len(header) - len(row))) for row in rows]
    if full:
        emit(framed(header, full, screen=at, elastic=elastic, spare=spare).rstrip("\n"))


def emit_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Lines of a name and what it is; those without a value are left out. A name that is empty goes on."""
    shown = [(name, value) for name, value in pairs if value]
    wide = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        emit(f"{name.ljust(wide)}  {value}")


def screen() -> Screen | None:
    """The terminal that stdout is, or None."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return Screen(shutil.get_terminal_size().columns, takes_escapes(sys.stdout) and not os.environ.get("NO_COLOR"))


def takes_escapes(stream: TextIO) -> bool:
    """True if `stream` is a terminal that knows more than letters."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
