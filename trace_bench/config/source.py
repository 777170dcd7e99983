"""The places where the values of a config were written: tables and rows that know the line of every key and entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = str | int
Path_ = tuple[Key, ...]


class Table(dict[str, Any]):
    """A mapping with the line of each key, and the name under which the user knows it."""

    def __init__(self, items: Mapping[str, Any] | None = None, line: int | None = None) -> None:
        super().__init__(items or {})
        self.line = line
        self.lines: dict[str, int | None] = {}
        self.names: dict[str, str] = {}
        """Key as written, where it differs from the key here. One that begins with ``/`` stood at the top level; an
        empty one was not written at all: what is below it stood one level higher."""
        self.origins: dict[str, str] = {}
        """Where a key was given, if not in the file (``option --max-workers``)."""


class Rows(list[Any]):
    """A list with the line of each entry. `single` if the user wrote its one entry without a list."""

    def __init__(self, items: Iterable[Any] = (), line: int | None = None, *, single: bool = False) -> None:
        super().__init__(items)
        self.line = line
        self.lines: list[int | None] = []
        self.single = single


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, without its place's file name. `place` is ``line N`` or an option."""

    line: int | None
    text: str
    origin: str = ""


@dataclass(frozen=True)
class Source:
    """The places of a config's values. Equal to any other: the place of a config is no part of it."""

    file: str = field(default="config", compare=False)
    root: Table = field(default_factory=Table, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def problem(self, path: Path_, text: str) -> Problem:
        """`text` at `path`, as far down as `path` was written."""
        line, origin, _ = self._find(path)
        return Problem(line, text, origin)

    def where(self, path: Path_) -> str:
        """``FILE, line N: path.to.key`` of `path`, for the beginning of a sentence."""
        line, origin, shown = self._find(path)
        place = self.sentence(Problem(line, "", origin))
        return f"{place}{shown}" if shown else place.rstrip().removesuffix(":")

    def origin(self, path: Path_) -> str:
        """The option that `path` was given by; empty if the file has it."""
        return self._find(path)[1]

    def shown(self, path: Path_) -> str:
        """`path` in the user's own words: ``trainers[0].params.num_steps``."""
        return self._find(path)[2]

    def sentence(self, problem: Problem) -> str:
        if problem.origin:
            return f"{problem.origin}: {problem.text}"
        line = f", line {problem.line}" if problem.line is not None else ""
        return f"{self.file}{line}: {problem.text}"

    def _find(self, path: Path_) -> tuple[int | None, str, str]:
        """Line, origin and shown form of `path`."""
        node: Any = self.root
        line, origin, shown = self.root.line, "", ""
        for key in path:
            if isinstance(node, Table) and isinstance(key, str):
                written = node.names.get(key, key)
                written = written if written.isprintable() else repr(written)
                if written.startswith("/"):
                    shown = written[1:]
                elif written:
                    shown = f"{shown}.{written}" if shown else written
                line = node.lines.get(key) or line
                origin = node.origins.get(key, origin)
                node = node.get(key)
            elif isinstance(node, Rows) and isinstance(key, int):
                if not node.single:
                    shown = f"{shown}[{key}]"
                    line = (node.lines[key] if key < len(node.lines) else None) or line
                node = node[key] if key < len(node) else None
            else:
                name = str(key) if str(key).isprintable() else repr(key)
                shown = f"{shown}[{key}]" if isinstance(key, int) else f"{shown}.{name}" if shown else name
                node = None
        return line, origin, shown
