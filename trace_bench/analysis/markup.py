"""Tables, and how they are written in Markdown and TeX; estimates as text.

Cells are whatever a config or a plug-in names things, so that each format escapes them its own way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trace_bench.analysis.statistics import Estimate, Interval
from trace_bench.artifacts.jsonio import printable

MOST_ROWS = 2000
"""Of one table that `Table.of` makes."""


@dataclass(frozen=True)
class Table:
    """`rows` of printable cells below `header`; columns named in `numeric` hold numbers. `notes` are sentences below
    it."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str] = frozenset()
    title: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        numeric: Iterable[str] = (),
        title: str = "",
        notes: Sequence[str] = (),
    ) -> Table:
        """A table of the first `MOST_ROWS` of `rows`; a note says how many more there are."""
        every = [tuple(row) for row in rows]
        left_out = len(every) - MOST_ROWS
        said = [*notes, f"{left_out} more rows were left out."] if left_out > 0 else list(notes)
        return cls(tuple(header), tuple(every[:MOST_ROWS]), frozenset(numeric), title, tuple(said))


def interval(found: Estimate) -> str:
    """``[low, high]`` with four significant digits, ``[value]=`` where all values are the same; a dash for none."""
    if found.interval is None:
        return "-"
    low, high = found.interval
    return f"[{low:.4g}]=" if found.equal else f"[{low:.4g}, {high:.4g}]"


def coverage(found: Interval | None) -> str:
    """``63–95 %``."""
    if found is None:
        return "-"
    return f"{100 * found[0]:.0f}–{100 * found[1]:.0f} %"


def markdown(table: Table) -> str:
    """The cells of a table in GitHub's Markdown; numbers are flush right."""
    lines = ["| " + " | ".join(map(markdown_text, table.header)) + " |"]
    lines.append("|" + "|".join("---:" if name in table.numeric else "---" for name in table.header) + "|")
    lines += ["| " + " | ".join(map(markdown_text, row)) + " |" for row in table.rows]
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """`text` in a line of Markdown or a cell of its tables, as it is: nothing in it is a tag, a link, an image or a
    heading.

    >>> markdown_text("a|b <c> *d* [e](f)")
    'a\\\\|b &lt;c&gt; \\\\*d\\\\* \\\\[e\\\\](f)'
    """
    text = printable(text, 4000).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]|~#!$])", r"\\\1", text)
    return re.sub(r"(?i)\b(https?|ftp|mailto)(?=:)|(?<=www)(?=\.)|(?=@)", _unlinked, text)


def _unlinked(found: re.Match[str]) -> str:
    """An entity where a bare address would become a link."""
    return f"{found[0][:-1]}&#{ord(found[0][-1])};" if found[0] else "&#8203;"


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "↑": r"$\uparrow$",
        "↓": r"$\downarrow$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
        "[": "{[}", "]": "{]}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}"}  # fmt: skip
_TEX |= {letter: f"\\{letter}" for letter in "{}$&#%_"}


def tex(table: Table) -> str:
    """A ``tabular`` with the rules of the package booktabs."""
    columns = "".join("r" if name in table.numeric else "l" for name in table.header)
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(map(tex_text, table.header)) + r" \\"]
    lines.append("\\midrule")
    lines += [" & ".join(map(tex_text, row)) + r" \\" for row in table.rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def tex_text(text: str) -> str:
    r"""`text` in TeX, as it is.

    >>> tex_text("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_TEX.get(letter, letter) for letter in printable(text, 4000))
