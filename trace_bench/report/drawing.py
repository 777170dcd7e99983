"""What pictures of a report are made of: JSON that plotly draws from. Colours of text, grid and page are the page's.

Texts in a picture are read by plotly as markup of its own: every one goes through `plain`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from trace_bench.display.text import clean_line

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6d31")
"""Okabe and Ito's, without what cannot be seen on white or black; colour-blind safe."""
DASHES = ("solid", "dash", "dot", "dashdot")
DRAWN_DASHES = ("━━", "╍╍", "┅┅", "━ ·")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
DRAWN_SYMBOLS = "●■◆▲✚✖★⬢"
"""The dashes and symbols as letters."""
GRADIENT = "Cividis"
LETTER = 7
"""Width of a letter in pictures, in pixels, on average."""

Trace = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """`label` says in words what it shows; `height` is in pixels, and so is `width`, which it has at least: where the
    page is narrower, it scrolls in a box of its own."""

    name: str
    label: str
    data: list[Trace]
    layout: dict[str, Any]
    height: int
    width: int = 600

    def as_json(self) -> dict[str, Any]:
        return {"data": self.data, "layout": {**self.layout, "height": self.height}}


def plain(text: str) -> str:
    """`text` as plotly shows it letter by letter."""
    return escape(clean_line(text, 400), quote=False)


def wrapped(configuration: str, width: int) -> str:
    """The label of a configuration in at most five lines of about `width` letters."""
    lines = [""]
    for part in configuration.replace(",", ", ").split(" "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".strip()
    return "<br>".join(plain(line[: width + 8]) for line in lines[:5])


def short(task: str, tasks: Iterable[str]) -> str:
    """The last part of a task's name, if no other task has the same."""
    ends = [_end(other) for other in tasks]
    return _end(task) if ends.count(_end(task)) == 1 else task


def _end(task: str) -> str:
    head, blank, rest = task.partition(" ")
    return head.rsplit("/", 1)[-1].rsplit(":", 1)[-1] + blank + rest


@dataclass(frozen=True)
class Style:
    """How each configuration looks in every picture."""

    configurations: tuple[str, ...]

    def color(self, configuration: str) -> str:
        return PALETTE[self.configurations.index(configuration) % len(PALETTE)]

    def line(self, configuration: str) -> Trace:
        number = self.configurations.index(configuration) // len(PALETTE)
        return {"color": self.color(configuration), "width": 2, "dash": DASHES[number % len(DASHES)]}

    def marker(self, configuration: str, size: int = 7) -> Trace:
        return {
            "color": self.color(configuration),
            "size": size,
            "symbol": SYMBOLS[self.configurations.index(configuration) % len(SYMBOLS)],
        }

    def letters(self, configuration: str) -> str:
        """The line and the symbol as letters, for a legend."""
        number = self.configurations.index(configuration)
        dash = DRAWN_DASHES[number // len(PALETTE) % len(DRAWN_DASHES)]
        return f"{dash}{DRAWN_SYMBOLS[number % len(SYMBOLS)]}"

    def faint(self, configuration: str) -> str:
        red, green, blue = (int(self.color(configuration)[at : at + 2], 16) for at in (1, 3, 5))
        return f"rgba({red},{green},{blue},0.18)"
