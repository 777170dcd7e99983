"""Find the code blocks of an answer, and a program without a fence in prose.

Fences follow the rules of CommonMark: backticks and tildes of any length, info strings, indentation, lists.
markdown-it-py reads them; it is imported on first use.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from trace_bench.worker.source_scan import parse

MOST_CHARACTERS, MOST_LINES = 250_000, 20_000
"""Of a text that is read as Markdown: about a second, if it is made to be slow."""
MOST_BLOCKS = 64
"""Blocks of an answer that are looked at: the last ones."""
_CLOSINGS = 16
"""Later closing fences that are tried for blocks that are cut within a string."""
_CUTS = 64
"""Lines of prose that are cut off one after the other."""
_PROSE = 400
"""Characters around the only block of a value: "Here is the new version:"."""
_CLOSING = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_LINE = re.compile(r"\r\n|\r|\n")


class Block(NamedTuple):
    """A code block.

    Attributes:
        start, end: its place in the text, fences included.
    """

    source: str
    start: int
    end: int


class Excerpt(NamedTuple):
    """A program of an answer, and the text before it (before the first fence, if there are fences)."""

    source: str
    before: str = ""


def defining(entry: str) -> re.Pattern[str]:
    """A pattern of the line that defines the name `entry`."""
    name = re.escape(entry)
    return re.compile(
        rf"^[ \t]{{0,64}}(?:(?:async def|def|class)[ \t]{{1,8}}{name}\b|{name}[ \t]{{0,8}}(?::[^=\n]{{0,200}})?=(?!=))",
        re.MULTILINE,
    )


def blocks(text: str) -> list[Block]:
    """The fenced blocks of `text`, in order. One that is not closed ends with the text. None if `text` is too long."""
    if "```" not in text and "~~~" not in text:
        return []
    ends = [found.end() for found in _LINE.finditer(text)]
    if len(text) > MOST_CHARACTERS or len(ends) > MOST_LINES:
        return []
    starts = [0, *ends, len(text)]
    found = []
    for token in _parser().parse(text):
        if token.type == "fence" and token.map and token.content:
            first, last = token.map
            end = starts[min(last, len(starts) - 1)]
            found.append(Block(textwrap.dedent(token.content), starts[first], end))
    return found[-MOST_BLOCKS:]


def program(text: str, entry: str) -> Excerpt | None:
    """The program of `text` that defines `entry`: one that parses rather than one that does not, then the last one in a
    fence, then one without a fence. None if nothing in `text` defines it.
    """
    defines = defining(entry)
    if not defines.search(text):
        return None
    broken: Excerpt | None = None
    found = blocks(text)
    tries = _CLOSINGS
    for block in reversed(found):
        for source in _versions(text, block):
            if defines.search(source):
                if parse(source) is not None:
                    return Excerpt(source, text[: found[0].start])
                broken = broken or Excerpt(source, text[: found[0].start])
            if (tries := tries - 1) < 0:
                break
    return without_prose(text, defines) or broken or Excerpt(text)


def unfenced(value: str, entry: str) -> str:
    """`value`, which is to be source, without the fence that a model put around it, and prose before that.

    A fence within source, in a docstring or a comment, is part of it.
    """
    if ("```" not in value and "~~~" not in value) or parse(value) is not None:
        return value
    found = blocks(value)
    if not found:
        return value
    around = value[: found[0].start] + value[found[-1].end :]
    named = bool(entry) and re.search(rf"\b{re.escape(entry)}\b", around) is not None
    if len(around.strip()) > _PROSE or named:
        return value
    if (best := program(value, entry) if entry else None) is not None and parse(best.source) is not None:
        return best.source.removesuffix("\n")
    first, last = found[0], value.rstrip().splitlines()[-1]
    if not value[: first.start].strip() and _CLOSING.fullmatch(last) and len(found) > 1:
        return "\n".join(value.strip().splitlines()[1:-1])  # fences within, in a language that is not Python
    only = len(found) == 1 and (not around.strip() or parse(first.source) is not None)
    return first.source.removesuffix("\n") if only else value


def without_prose(text: str, defines: re.Pattern[str]) -> Excerpt | None:
    """The program in a text that has no fence around it: lines of prose at its ends are cut off where Python cannot
    read them. None if the rest does not define the program, or does not parse.
    """
    lines = text[:MOST_CHARACTERS].splitlines(keepends=True)
    opened = defines.search(text, 0, MOST_CHARACTERS)
    if opened is None or len(lines) > MOST_LINES:
        return None
    head = len(text[: opened.end()].splitlines()) - 1
    first, end = 0, len(lines)
    for _ in range(_CUTS):
        try:
            tree = ast.parse("".join(lines[first:end]))
        except SyntaxError as error:
            place = first + (error.lineno or 1) - 1
            if place < head:
                first = place + 1
            elif place < end and place > head and not lines[place][:1].isspace():
                end = place
            else:
                return None  # the program itself is broken
            continue
        except (ValueError, RecursionError, MemoryError):
            return None
        kept = _without_words(tree)
        if not kept:
            return None
        begin = min((kept[0].lineno, *(node.lineno for node in getattr(kept[0], "decorator_list", ()))))
        last = first + (kept[-1].end_lineno or 1)
        source = "".join(lines[first + begin - 1 : last])
        found = Excerpt(source, "".join(lines[: first + begin - 1]))
        return found if defines.search(source) else None
    return None


def _without_words(tree: ast.Module) -> list[ast.stmt]:
    """The statements of `tree` without words at its ends that happen to be Python, such as ``Done``."""
    kept = list(tree.body)
    while kept and _is_word(kept[-1]):
        kept.pop()
    while kept and _is_word(kept[0]) and not isinstance(getattr(kept[0], "value", None), ast.Constant):
        del kept[0]
    return kept


def _is_word(node: ast.stmt) -> bool:
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call | ast.Await)


def _versions(text: str, block: Block) -> Iterator[str]:
    """The source of `block`; without a fence behind its last line; and if it does not parse, up to each later closing
    fence, since a fence in a docstring does not end the block."""
    yield block.source
    if parse(block.source) is not None:
        return
    if (stripped := block.source.rstrip()).endswith(("```", "~~~")):
        yield stripped.rstrip("`~")
    start = _LINE.search(text, block.start)
    for closing in _CLOSING.finditer(text, block.end) if start else ():
        yield textwrap.dedent(text[start.end() : closing.start()])  # type: ignore[union-attr]


@functools.cache
def _parser() -> Any:
    from markdown_it import MarkdownIt  # here: workers start without it

    # A tag alone on a line (<answer>) would begin a block of HTML, which hides the fence that follows it.
    return MarkdownIt("commonmark").disable(["inline", "html_block", "reference"])
