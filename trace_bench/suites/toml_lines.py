"""Lines in a TOML file, for messages."""

from __future__ import annotations

import re
from pathlib import Path


def syntax_error(path: Path, text: str, message: str) -> str:
    """A sentence for the message of tomllib about the file at `path`."""
    match = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if match:
        return f"{path}, line {match[1]}: is not valid TOML: {message[: match.start()]} (column {match[2]})"
    message = message.removesuffix(" (at end of document)")
    return f"{path}, line {max(1, len(text.splitlines()))}: is not valid TOML: {message} at the end of the file"


def at_line(path: Path, line: int | None) -> str:
    """The place, for the beginning of a sentence."""
    return f"{path}, line {line}" if line else str(path)


def find_line(text: str, location: tuple[str, ...]) -> int | None:
    """The line that `location` is written on, as far as plain ``[table]`` headers and ``key =`` lines show it."""
    keys = [part for part in location if not part.isdigit()]
    if not keys:
        return None
    table, best, in_string = "", None, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if in_string:
            in_string = "" if in_string in line else in_string
            continue
        if header := re.match(r"^\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header[1].replace(" ", "").replace('"', "")
            if table == ".".join(keys) or (best is None and table == ".".join(keys[:-1])):
                best = number
        elif key := re.match(r"""^\s*["']?([A-Za-z0-9_.-]+)["']?\s*=""", line):
            full = f"{table}.{key[1]}" if table else key[1]
            if full == ".".join(keys) or (full == ".".join(keys[:-1]) and best is None):
                best = number
            for quote in ('"""', "'''"):
                if line.count(quote) == 1:
                    in_string = quote
    return best
