"""The first version of the rules by which answers are read. Replays of runs that were recorded under it need it.

It knows no reasoning, no tildes and no repair: the first JSON object counts, and the text between backticks.
"""

from __future__ import annotations

import json
import re
import textwrap
from bisect import bisect_left
from typing import Any

_CLOSING = re.compile(r"\n[ \t]{0,16}```")
_BLOCKS = 64


def first_object(text: str) -> Any:
    """The first JSON object with a ``suggestion``, else the last value that was read; None if there is none."""
    found: Any = None
    starts = [match.start() for match in re.finditer(r"\{", text)]
    before = bisect_left(starts, text.rfind('"suggestion"'))
    for start in [*starts[:64], *starts[max(before - 64, 64) : before]]:
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "suggestion" in found:
            break
    return found


def unfenced(value: str) -> str:
    """`value` without backticks around it."""
    fenced = re.fullmatch(r"\s*```[a-zA-Z0-9]*\n(.*?)\n?```\s*", value, re.DOTALL)
    return fenced.group(1) if fenced else value


def blocks(text: str) -> list[tuple[str, str]]:
    """(text before all blocks, content) of each code block, in order. One that is not closed ends with the text."""
    found: list[tuple[str, str]] = []
    opened = text.find("```")
    before = text[: max(opened, 0)]
    while opened >= 0 and len(found) < _BLOCKS:
        line = text.find("\n", opened)
        if line < 0:
            break
        closed = _CLOSING.search(text, line)
        content = text[line + 1 : closed.start() + 1] if closed else text[line + 1 :]
        found.append((before, textwrap.dedent(content)))
        opened = text.find("```", closed.end()) if closed else -1
    return found


def program(text: str, name: str) -> tuple[str, str] | None:
    """(text before all blocks, source) of the last block that defines `name`, else of the first block, else the whole
    text if it defines it. A text with a ``suggestion`` and no block is none."""
    defines = re.compile(rf"^[ \t]{{0,64}}(?:async def|def|class)[ \t]{{1,8}}{re.escape(name)}\b", re.MULTILINE)
    found = blocks(text)
    if found:
        return next((block for block in reversed(found) if defines.search(block[1])), found[0])
    return ("", text) if '"suggestion"' not in text and defines.search(text) else None
