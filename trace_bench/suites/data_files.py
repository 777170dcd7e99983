"""Published benchmark data that a user has on disk: which files, for which split, and how their numbers are read.

Nothing is unpickled or evaluated: a file is text, and a parser takes numbers from it one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train", "validate", "test")
FOLDER = "data"
"""Of a packed task: holds ``train/``, ``validate/`` and ``test/`` with the user's files."""


class DataError(ValueError):
    """A file breaks its format; the message names the line and what was expected."""


@dataclass(frozen=True)
class Files:
    """The files below ``data/`` of a task folder."""

    folder: Path

    @classmethod
    def of(cls, task_dir: Path) -> Files | None:
        """None for a task that comes without."""
        folder = task_dir / FOLDER
        return cls(folder) if folder.is_dir() else None

    def texts(self, split: str) -> Iterator[tuple[str, str]]:
        """``(name, text)`` of each file of `split`, sorted by name; none while the split is held out from this phase.
        Bytes that are no UTF-8 are read as Latin-1."""
        try:
            paths = sorted((self.folder / split).iterdir())
        except (FileNotFoundError, PermissionError):
            return
        for path in paths:
            raw = path.read_bytes()
            try:
                yield path.name, raw.decode("utf-8")
            except UnicodeDecodeError:
                yield path.name, raw.decode("latin-1")


class Numbers:
    """Takes whitespace-separated numbers from a text in order, and knows the line that each stands in.

    >>> numbers = Numbers("2 3.5\\n7")
    >>> numbers.integer("count"), numbers.real("cost"), numbers.integers(1, "sizes"), numbers.done
    (2, 3.5, [7], True)
    """

    def __init__(self, text: str) -> None:
        self._words = [(word, line) for line, row in enumerate(text.splitlines(), 1) for word in row.split()]
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._words)

    @property
    def place(self) -> str:
        """The place of the word that was read last: ``line 3``."""
        return f"line {self._words[self._at - 1][1]}"

    def word(self, what: str) -> str:
        """The next word, whatever it is."""
        if self.done:
            raise DataError(f"ends where {what} is expected")
        self._at += 1
        return self._words[self._at - 1][0]

    def integer(self, what: str) -> int:
        """The next number, which must be whole (``3.0`` and ``3e2`` are)."""
        value = self.real(what)
        if value != int(value):
            raise DataError(f"{self.place}: {what} must be a whole number, not {self._words[self._at - 1][0][:40]}")
        return int(value)

    def real(self, what: str) -> float:
        """The next number, which must be finite."""
        word = self.word(what)
        try:
            value = float(word if "_" not in word else "")  # Python takes 1_000 for a number, and no format does
        except ValueError:
            raise DataError(f"{self.place}: {what} must be a number, not {word[:40]!r}") from None
        if not math.isfinite(value):
            raise DataError(f"{self.place}: {what} must be finite, not {word[:40]}")
        return value

    def count(self, what: str, *, least: int = 0, most: int = 1_000_000) -> int:
        """A whole number of things, `least` to `most`: checked before anything of that size is made."""
        value = self.integer(what)
        if not least <= value <= most:
            raise DataError(f"{self.place}: {what} must be within {least} .. {most}, not {value}")
        return value

    def integers(self, length: int, what: str) -> list[int]:
        """The next `length` whole numbers."""
        return [self.integer(what) for _ in range(length)]

    def reals(self, length: int, what: str) -> list[float]:
        """The next `length` numbers."""
        return [self.real(what) for _ in range(length)]

    def end(self) -> None:
        """Refuse what is left: a file that holds more than was read is of another format."""
        if not self.done:
            word, line = self._words[self._at]
            raise DataError(f"line {line}: {word[:40]!r} is more than the format has")
