"""Find the ``suggestion`` in an answer that is JSON, or nearly. Standard library, and json-repair where that fails.

Each object is read by the strict reader first, then as a literal of Python, then by json-repair. Only an object with
both of its braces counts: nothing that a model left out is made up.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

MOST_REPAIRED = 200_000
"""Characters of all objects of an answer that are repaired: about a second, if they are made to be slow."""
MOST_DEPTH = 64
_PLACES = 64
_SUGGESTION = re.compile(r"""["'“]?\bsuggestion["'”]?\s{0,8}:""")
_PARTS = re.compile(
    r"""[{}]|//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z)|(?s:"(?:[^"\\]|\\.)*+(?:"|\Z))"""
    r"""|(?s:(?<=[\[{,:])\s{0,8}'(?:[^'\\]|\\.|'(?!\s{0,8}[,:}\]]))*+(?:'|\Z))""",
    re.DOTALL,
)
"""Braces, and what a brace is no brace in: comments, and strings of either quotes."""


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of `text`, in order, and those with a ``suggestion`` that can be repaired.

    Objects within others are not looked at. At most 128 places are tried, so that reading ends soon.
    """
    end, left = 0, MOST_REPAIRED
    for start in _starts(text):
        if start < end:
            continue
        try:
            found, end = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            window = text[start : start + left]
            if not _SUGGESTION.search(window) or not (size := _size(window)):
                continue
            if not _SUGGESTION.search(window, 0, size):
                continue
            left -= size
            found = _repaired(window[:size])
            if found is None:
                continue
            end = start + size
        if isinstance(found, dict):
            yield found


def _starts(text: str) -> list[int]:
    """Where an object may start: the first places, and as many before the last "suggestion", so that braces in a long
    text before the object do no harm."""
    first = [match.start() for match in itertools.islice(re.finditer(r"\{", text), _PLACES)]
    place = max((match.start() for match in _SUGGESTION.finditer(text)), default=0)
    before: list[int] = []
    while len(before) < _PLACES and (place := text.rfind("{", 0, place)) >= 0:
        before.append(place)
    return sorted({*first, *before})


def _size(text: str) -> int:
    """The length of the object that `text` begins with; 0 if it does not end, or is nested too deeply."""
    depth = 0
    for part in _PARTS.finditer(text):
        if part[0] == "{":
            depth += 1
        elif part[0] == "}":
            depth -= 1
        if depth == 0:
            return part.end()
        if depth > MOST_DEPTH:
            return 0
    return 0


def _repaired(text: str) -> dict[str, Any] | None:
    """The object that `text` was meant to be; None if it has no ``suggestion`` that is an object with names."""
    for read in (ast.literal_eval, _repair):
        found = None
        with contextlib.suppress(Exception):  # the text is hostile: whatever a library raises, it was not read
            found = read(text)
        if isinstance(found, dict) and _named(found) and _named(found.get("suggestion")):
            return found
    return None


def _repair(text: str) -> Any:
    import json_repair  # here: a worker starts without it

    return json_repair.loads(text, skip_json_loads=True)


def _named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)
