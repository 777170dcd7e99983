"""Reads a config that is Python data into tables and rows, with the checks that `reader` makes of a file."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from trace_bench.arguments import describe
from trace_bench.config.reader import MAX_DEPTH, MAX_VALUES
from trace_bench.config.secrets import redact
from trace_bench.config.source import Path_, Rows, Source, Table
from trace_bench.errors import ConfigError


def read_mapping(data: Mapping[str, Any], file: str) -> Table:
    """`data` as a table without lines.

    Paths become strings, ranges and tuples become rows, and numbers of NumPy become Python's.

    Args:
        file: the name of `data` in messages.

    Raises:
        ConfigError: `data` is no mapping, or holds what no config can; one line per problem.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{file}: a config is a mapping of keys to values, not {describe(data)}")
    reader = _Reader(file)
    table: Table = reader.value(data, (), ())
    if reader.problems:
        raise ConfigError(redact("\n".join(reader.problems)))
    return table


class _Reader:
    """Turns Python data into tables, rows and scalars. Names of keys and entries are in the words of `Source.shown`."""

    def __init__(self, file: str) -> None:
        self.problems: list[str] = []
        self._file = file
        self._count = 0

    def value(self, value: Any, path: Path_, above: tuple[int, ...]) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise ConfigError(f"{self._file}: holds more than {MAX_VALUES} values, which no config does")
        if isinstance(value, Mapping):
            return self._table(value, path, self._inside(value, path, above))
        if isinstance(value, list | tuple | range):
            inside = self._inside(value, path, above)
            return Rows(self.value(item, (*path, index), inside) for index, item in enumerate(value))
        return self._scalar(value, path)

    def _inside(self, value: Any, path: Path_, above: tuple[int, ...]) -> tuple[int, ...]:
        if id(value) in above:
            raise ConfigError(f"{self._file}: {_shown(path)} contains itself; write the value out")
        if len(above) > MAX_DEPTH:
            raise ConfigError(f"{self._file}: is nested deeper than {MAX_DEPTH} levels; no config key is")
        return (*above, id(value))

    def _table(self, value: Mapping[Any, Any], path: Path_, above: tuple[int, ...]) -> Table:
        table = Table()
        for key, item in value.items():
            if not isinstance(key, str):
                self._problem(path, f"has the key {describe(key)}; a key is a string")
                continue
            table[self._string(key, path)] = self.value(item, (*path, key), above)
        return table

    def _scalar(self, value: Any, path: Path_) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._string(str(value), path)
        if isinstance(value, os.PathLike):
            return self._string(os.fsdecode(value), path)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            number = float(value)
            if not math.isfinite(number):
                self._problem(path, f"is {number}; give a finite number or leave the key out")
                return None
            return number
        self._problem(path, f"is {describe(value)}; write a string, a number, true or false, a list or a mapping")
        return None

    def _string(self, text: str, path: Path_) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._problem(path, _not_text(text))
            return text.encode("utf-8", "replace").decode()
        return text

    def _problem(self, path: Path_, text: str) -> None:
        self.problems.append(f"{self._file}: {_shown(path)} {text}")


def _not_text(text: str) -> str:
    """The problem of a text with lone surrogates. Python makes them of bytes that are not text in the locale."""
    if any("\ud800" <= character <= "\udc7f" or "\udd00" <= character <= "\udfff" for character in text):
        return "holds half of a surrogate pair; write the character itself"
    return f"is not valid text in this locale ({locale_here()}); set a UTF-8 locale, or rename the file in UTF-8"


def locale_here() -> str:
    """The variable that sets the locale of this process, and its encoding of file names."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LANG")
    return f"{name}={os.environ.get(name, '')}, {sys.getfilesystemencoding()}"


def _shown(path: Path_) -> str:
    return Source().shown(path) or "the config"
