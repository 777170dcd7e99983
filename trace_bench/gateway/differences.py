"""Describes how two requests differ: the first difference in a sentence, and all differences as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.display.text import quoted

CONTEXT = 40
"""Characters shown before and after the first difference in a text."""
MAX_LINES = 4000
"""Longer requests are shown one after the other: a diff of them would take too long."""

Leaves = dict[str, Any]


def leaves(value: Any, path: str = "") -> Leaves:
    """Every value in `value` by its path, in order.

    >>> leaves({"messages": [{"role": "user"}], "n": 1})
    {'messages[0].role': 'user', 'n': 1}
    """
    return dict(_leaves(value, path))


def distance(one: Any, other: Any) -> int:
    """How much two requests differ: characters of the values that differ, without common beginnings and ends."""
    a, b = leaves(one), leaves(other)
    changed = [path for path in {**a, **b} if a.get(path) != b.get(path)]
    return sum(_apart(_text(a.get(path, "")), _text(b.get(path, ""))) for path in changed)


def first_difference(asked: Any, recorded: Any) -> str:
    """Where two requests differ first, and how; clipped.

    >>> first_difference({"n": 1}, {"n": 2})
    "n is '1', and was '2'"
    """
    a, b = leaves(asked), leaves(recorded)
    for path in {**a, **b}:
        if path not in b:
            return f"{_shown(path)} is {_clipped(_text(a[path]), 0)}, and was not there"
        if path not in a:
            return f"{_shown(path)} is not there, and was {_clipped(_text(b[path]), 0)}"
        if a[path] != b[path] or type(a[path]) is not type(b[path]):
            one, other = _text(a[path]), _text(b[path])
            at = _in_common(one, other)
            where = f" differs at character {at}:" if at else " is"
            return f"{_shown(path)}{where} {_clipped(one, at)}, and was {_clipped(other, at)}"
    return "they are equal"


def whole_difference(asked: Any, recorded: Any) -> str:
    """A unified diff of two requests, the recorded one first, with one line for each line of every text."""
    old, new = _lines(recorded), _lines(asked)
    if max(len(old), len(new)) > MAX_LINES:
        return "\n".join(["--- recorded", *old, "+++ asked", *new, ""])
    return "\n".join([*difflib.unified_diff(old, new, "recorded", "asked", lineterm=""), ""])


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def _apart(one: str, other: str) -> int:
    begin = _in_common(one, other)
    end = _in_common(one[begin:][::-1], other[begin:][::-1])
    return max(len(one), len(other)) - begin - end + 1


def _in_common(one: str, other: str) -> int:
    """How many characters both begin with."""
    same, differ = 0, min(len(one), len(other)) + 1
    while differ - same > 1:  # by halves: comparing slices is much quicker than comparing characters
        middle = (same + differ) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differ = middle
    return same


def _text(value: Any) -> str:
    return value if isinstance(value, str) else jsonio.dumps(value)


def _clipped(text: str, at: int) -> str:
    start, end = max(0, at - CONTEXT), at + CONTEXT
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"'{before}{quoted(text[start:end], 4 * CONTEXT)}{after}'"


def _shown(path: str) -> str:
    return quoted(path) or "the body"


def _lines(value: Any) -> list[str]:
    found = []
    for path, leaf in leaves(value).items():
        found += [f"{path}:", *(f"  {line}" for line in _text(leaf).split("\n"))]
    return found
