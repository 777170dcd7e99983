"""Tables on stdout: framed on a terminal, plain columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from trace_bench.cli.output import emit
from trace_bench.results.render import aligned, framed


def emit_table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[str] = ()) -> None:
    """`rows` below `header`; columns named in `numeric` are flush right. Cells are printable already."""
    width = terminal_width()
    text = aligned(header, rows, numeric) if width is None else framed(header, rows, numeric, width=width)
    emit(text.rstrip("\n"))


def emit_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Lines of a name and what it is; those without a value are left out. A name that is empty goes on."""
    shown = [(name, value) for name, value in pairs if value]
    wide = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        emit(f"{name.ljust(wide)}  {value}")


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is, or None."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns
