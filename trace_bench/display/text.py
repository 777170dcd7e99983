"""Escapes for text that leaves the program: no text can command a terminal, forge a line, or hide a part of itself.

Callers pass text as it is to what prints or writes it: `trace_bench.display.console`, the renderers of a
`trace_bench.display.table.Table`, and the writers of files. These call the functions here. `quoted` alone is for
callers: it embeds an untrusted value, which could be long or hold line breaks, in a sentence. Errors that escape
their own message (`trace_bench.errors.CollectError`, `trace_bench.gateway.base.Refusal`) need no such call.
"""

from __future__ import annotations

import json
import re
from typing import Any

from trace_bench.secrets import known

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Characters that command a terminal, change the direction of text, or cannot be seen. Tab and newline are not here."""
_NOT_IN_CELLS = re.compile(f"{HIDDEN.pattern}|[\t\n]")
_FORMULA = frozenset("=+-@＝＋－＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NEXT_CELL = re.compile(r"(;[\s\"']*)(?=[=+\-@＝＋－＠])")
"""The place where a spreadsheet that separates cells by semicolons would begin a cell with a formula."""


def escape_line(text: str) -> str:
    r"""`text` on one line: every character that is not printable becomes an escape.

    >>> print(escape_line("a\nb\x1b[2J"))
    a\nb\x1b[2J
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_tabbed(text: str) -> str:
    """`text` on one line like `escape_line`, but tabs stay."""
    return "\t".join(map(escape_line, text.split("\t")))


def escape_block(text: str) -> str:
    """`text` with its line breaks and tabs, and with an escape for each character of `HIDDEN`."""
    return HIDDEN.sub(_escaped, text)


def clean_line(text: str, limit: int | None = None) -> str:
    """`text` on one line, with secrets masked and cut to `limit` characters."""
    text = known.text(text)
    return escape_line(text) if limit is None else quoted(text, limit)


def quoted(value: object, limit: int = 120) -> str:
    """An untrusted text, or plain data as JSON, as a part of a sentence: on one line and cut to `limit` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    shown = escape_line(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def escape_json(text: str) -> str:
    r"""JSON `text` of the same value, in which characters of `HIDDEN` are escapes. They only occur inside strings.

    >>> escape_json('"a\u202eb"')
    '"a\\u202eb"'
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)


def csv_cell(value: Any) -> str:
    r"""One cell of a CSV file: a row is always one line, and no spreadsheet takes a cell for a formula.

    None is empty, a float is the shortest text that reads back to it, a mapping or list is JSON. Line breaks and
    characters of `HIDDEN` become escapes. A text that starts with ``=``, ``+``, ``-`` or ``@`` (after blanks and
    quotes) gets a leading apostrophe unless it is a number, and so does such a text after a semicolon. The exact text
    is in ``results.json``.

    >>> csv_cell("=1+1"), csv_cell("-3.5"), csv_cell(-3.5), csv_cell("a\nb")
    ("'=1+1", '-3.5', '-3.5', 'a\\nb')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = _NEXT_CELL.sub(r"\1'", _NOT_IN_CELLS.sub(_escaped, value))
    if text.lstrip(" \"'\xa0\u3000")[:1] in _FORMULA and _NUMBER.fullmatch(text) is None:
        return "'" + text
    return text


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
