"""Tables and rows that know the place of every key and entry of a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = str | int
Path_ = tuple[Key, ...]


@dataclass(frozen=True)
class Place:
    """The place where a key was written.

    Attributes:
        written: the key in the user's words, where it has another name here. A name that begins with ``/`` stood at
            the top level. An empty one was not written: the keys below it stood one level higher.
        option: the option that gave the key (``option --max-workers``); empty if the file has it.
    """

    line: int | None = None
    written: str | None = None
    option: str = ""


_UNKNOWN = Place()


class Table(dict[str, Any]):
    """A mapping with the place of each key."""

    def __init__(self, items: Mapping[str, Any] | None = None, line: int | None = None) -> None:
        super().__init__(items or {})
        self.line = line
        self.places: dict[str, Place] = {}

    def place(self, key: str) -> Place:
        """The place of `key`."""
        return self.places.get(key, _UNKNOWN)

    def put(self, key: str, value: Any, place: Place) -> None:
        """Set `key`, which was written at `place`."""
        self[key] = value
        self.places[key] = place


class Rows(list[Any]):
    """A list with the line of each entry. `single` if the user wrote its one entry without a list."""

    def __init__(self, items: Iterable[Any] = (), line: int | None = None, *, single: bool = False) -> None:
        super().__init__(items)
        self.line = line
        self.lines: list[int | None] = []
        self.single = single

    def line_of(self, index: int) -> int | None:
        """The line of entry `index`, if it is known."""
        return self.lines[index] if index < len(self.lines) else None


@dataclass(frozen=True)
class Problem:
    """A mistake in a config. `option` is its place if an option gave the value; else it is `line` of the file."""

    line: int | None
    text: str
    option: str = ""


@dataclass(frozen=True)
class Source:
    """The places of a config's values. All sources are equal, so that places do not count when configs are compared."""

    file: str = field(default="config", compare=False)
    root: Any = field(default_factory=Table, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def problem(self, path: Path_, text: str) -> Problem:
        """`text` at `path`, as far down as `path` was written."""
        line, option, _ = self._find(path)
        return Problem(line, text, option)

    def where(self, path: Path_) -> str:
        """``FILE, line N: path.to.key`` of `path`, for the beginning of a sentence."""
        line, option, shown = self._find(path)
        place = self.sentence(Problem(line, "", option))
        return f"{place}{shown}" if shown else place.rstrip().removesuffix(":")

    def origin(self, path: Path_) -> str:
        """The option that `path` was given by; empty if the file has it."""
        return self._find(path)[1]

    def shown(self, path: Path_) -> str:
        """`path` in the user's own words: ``trainers[0].params.num_steps``."""
        return self._find(path)[2]

    def sentence(self, problem: Problem) -> str:
        """`problem` with its place in front."""
        if problem.option:
            return f"{problem.option}: {problem.text}"
        line = f", line {problem.line}" if problem.line is not None else ""
        return f"{self.file}{line}: {problem.text}"

    def _find(self, path: Path_) -> tuple[int | None, str, str]:
        """Line, option and shown form of `path`."""
        node: Any = self.root
        line, option, shown = getattr(node, "line", None), "", ""
        for key in path:
            if isinstance(node, Rows) and isinstance(key, int):
                if not node.single:
                    shown = f"{shown}[{key}]"
                    line = node.line_of(key) or line
                node = node[key] if key < len(node) else None
                continue
            place = node.place(str(key)) if isinstance(node, Table) else _UNKNOWN
            name = str(key) if place.written is None else place.written
            name = name if name.isprintable() else repr(name)
            if isinstance(key, int):
                shown = f"{shown}[{key}]"
            elif name.startswith("/"):
                shown = name[1:]
            elif place.written != "":
                shown = f"{shown}.{name}" if shown else name
            line, option = place.line or line, place.option or option
            node = node.get(str(key)) if isinstance(node, Table) else None
        return line, option, shown
