"""Sizes such as ``512m`` and ``2g``: whole bytes inside, units of 1024 outside."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from trace_bench.config.values import measured

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_LARGEST = 1 << 50


def parse_size(value: Any) -> int:
    """Bytes of ``"2g"``, ``"512 MiB"`` or a plain number of bytes.

    >>> parse_size("2g") == 2 * 1024**3 == parse_size(2147483648)
    True

    Raises:
        ValueError: `value` is not a size.
    """
    size: float | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and len(value) <= 40 and (match := _SIZE.fullmatch(value.strip())):
        size = float(match[1]) * (1 << _UNITS[match[2].lower()])
    if size is None or size != int(size) or not 0 <= size <= _LARGEST:
        raise ValueError("must be a size such as '512m' or '2g'")
    return int(size)


def format_size(size: int) -> str | int:
    """The shortest way to write `size` that reads back to it.

    >>> format_size(2 << 30), format_size(1000)
    ('2g', 1000)
    """
    for unit in ("t", "g", "m", "k"):
        if size and size % (1 << _UNITS[unit]) == 0:
            return f"{size >> _UNITS[unit]}{unit}"
    return size


_WRITTEN = Annotated[str, Field(pattern=r"^\s*\d+(\.\d+)?\s*[kKmMgGtT]?([iI]?[bB])?\s*$")]
Size = Annotated[
    int,
    BeforeValidator(parse_size, json_schema_input_type=Annotated[int, Field(ge=0)] | _WRITTEN),
    measured("bytes"),
]
"""A number of bytes."""
