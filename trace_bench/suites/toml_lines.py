"""TOML files, and the lines of keys in them for messages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and its content.

    Raises:
        ConfigError: it is missing, cannot be read, or is not TOML; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: does not exist; a task folder needs a {path.name}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(syntax_error(path, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply to be a task spec") from None


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
