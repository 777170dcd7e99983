"""A table as Markdown, HTML, TeX and CSV. Each format escapes cells its own way: names in configs and plug-ins are
untrusted."""

from __future__ import annotations

import csv
import io
import re
from html import escape

from trace_bench.display.table import Table
from trace_bench.display.text import clean_line, csv_cell, escape_block
from trace_bench.secrets import known

_LIMIT = 4000
"""Characters of a text outside a table."""


def markdown(table: Table) -> str:
    """The cells in GitHub's Markdown. Title and notes are left to the caller."""
    lines = ["| " + " | ".join(map(markdown_text, table.header)) + " |"]
    lines.append("|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|")
    lines += ["| " + " | ".join(map(markdown_text, row)) + " |" for row in table.texts]
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """`text` in a line of Markdown or a cell of its tables: nothing in it is a tag, a link, an image or a heading.

    >>> markdown_text("a|b <c> *d* [e](f)")
    'a\\\\|b &lt;c&gt; \\\\*d\\\\* \\\\[e\\\\](f)'
    """
    text = escape(clean_line(text, _LIMIT), quote=False)
    text = re.sub(r"([\\`*_{}\[\]|~#!$])", r"\\\1", text)
    return re.sub(r"(?i)\b(https?|ftp|mailto)(?=:)|(?<=www)(?=\.)|(?=@)", _unlinked, text)


def _unlinked(found: re.Match[str]) -> str:
    """An entity where a bare address would become a link."""
    return f"{found[0][:-1]}&#{ord(found[0][-1])};" if found[0] else "&#8203;"


def html(table: Table) -> str:
    """The table and its notes as HTML for the output of a notebook's cell."""
    rows = [("th", table.header), *(("td", row) for row in table.texts)]
    sides = ["right" if column.right else "left" for column in table.columns]
    lines = []
    for tag, row in rows:
        cells = (
            f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for side, cell in zip(sides, row, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    shown = f"<table>\n<thead>{lines[0]}</thead>\n<tbody>\n{''.join(lines[1:])}</tbody>\n</table>"
    return shown + "".join(map(html_paragraph, table.notes))


def html_paragraph(text: str) -> str:
    """`text` as a paragraph of HTML; nothing for an empty text."""
    return f"<p>{html_text(text)}</p>" if text else ""


def html_text(text: str, limit: int = _LIMIT) -> str:
    """`text` on one line inside an element or an attribute of HTML, cut to `limit` characters."""
    return escape(clean_line(text, limit))


def html_block(text: str) -> str:
    """`text` with its line breaks and tabs inside an element of HTML."""
    return escape(escape_block(known.text(text)))


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "↑": r"$\uparrow$",
        "↓": r"$\downarrow$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
        "[": "{[}", "]": "{]}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}"}  # fmt: skip
_TEX |= {letter: f"\\{letter}" for letter in "{}$&#%_"}


def tex(table: Table) -> str:
    """A ``tabular`` with the rules of the package booktabs."""
    sides = "".join("r" if column.right else "l" for column in table.columns)
    head, *rows = (" & ".join(map(tex_text, row)) + r" \\" for row in (table.header, *table.texts))
    return "\n".join([f"\\begin{{tabular}}{{{sides}}}", "\\toprule", head, "\\midrule", *rows, "\\bottomrule",
                      "\\end{tabular}"])  # fmt: skip


def tex_text(text: str) -> str:
    r"""`text` in TeX, as it is.

    >>> tex_text("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_TEX.get(letter, letter) for letter in clean_line(text, _LIMIT))


def csv_text(table: Table) -> str:
    """The raw values as CSV (see `trace_bench.display.text.csv_cell`)."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(csv_cell, row) for row in (table.header, *table.rows))
    return text.getvalue()
