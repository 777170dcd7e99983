"""Programs of one source file in several levels: the file has a line ``LEVEL = 5``, and with a lower number in it the
same source is a weaker program. Standard library only."""

from __future__ import annotations

import re

_LINE = re.compile(r"^LEVEL = ([0-9]+)$", re.MULTILINE)


def top_level(source: str) -> int | None:
    """The number in the one line ``LEVEL = N`` of `source`; None if there is no such line, or more than one."""
    found = _LINE.findall(source)
    return int(found[0]) if len(found) == 1 else None


def at_level(source: str, level: int) -> str:
    """`source` with `level` in its line ``LEVEL = N``.

    >>> at_level("LEVEL = 5\\nprint(LEVEL)", 2)
    'LEVEL = 2\\nprint(LEVEL)'
    """
    return _LINE.sub(f"LEVEL = {level}", source)
