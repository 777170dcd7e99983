"""Reads the columns of a row, and says which column of which row is wrong.

In the sandbox: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = ("id", "query_id", "question_id", "qid", "task_id", "pid")
"""Columns that name a row, in the data sets of the suite."""
_LENGTH = 60
"""Characters of a text that stands for a row without a name."""


class Row:
    """A row of a data set, as a dict of columns."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    @property
    def name(self) -> str:
        """The row's id, or else the beginning of its question, or else of its first text."""
        for column in _NAMES:
            if isinstance(self._columns.get(column), str | int):
                return str(self._columns[column])
        values = (self._columns.get("question"), *self._columns.values())
        texts = (value for value in values if isinstance(value, str))
        return " ".join(next(texts, "without text").split())[:_LENGTH]

    def __contains__(self, column: str) -> bool:
        return self._columns.get(column) is not None

    def error(self, column: str, problem: str) -> ValueError:
        return ValueError(f"row {self.name!r}: column {column!r} {problem}")

    def value(self, column: str) -> Any:
        if column not in self:
            if column in self._columns:
                raise self.error(column, "is null")
            known = ", ".join(map(repr, self._columns))
            raise self.error(column, f"is missing; the row has {known or 'no columns'}")
        return self._columns[column]

    def optional(self, column: str, default: Any = None) -> Any:
        """The value of `column`, or `default` where the row has none."""
        return self._columns[column] if column in self else default

    def text(self, column: str) -> str:
        """The text or the number of `column`, without white space at its ends.

        Raises:
            ValueError: the column is missing, empty, or of another type.
        """
        return self.checked_text(column, self.value(column))

    def source(self, column: str) -> str:
        """The program text of `column`, with its white space."""
        self.text(column)
        return str(self._columns[column])

    def texts(self, column: str) -> list[str]:
        """The texts of a list in `column`. Entries are numbers or texts that are not empty."""
        return [self.checked_text(column, value) for value in self.listed(column, self.value(column))]

    def checked_text(self, column: str, value: object) -> str:
        """`value`, which stands in `column`, as text."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(column, f"must have text, not {type(value).__name__}")
        if not str(value).strip():
            raise self.error(column, "is empty")
        return str(value).strip()

    def listed(self, column: str, value: object) -> list[Any]:
        """`value`, which stands in `column`, as a list that is not empty."""
        if not isinstance(value, list | tuple):
            raise self.error(column, f"must have a list, not {type(value).__name__}")
        if not value:
            raise self.error(column, "has an empty list")
        return list(value)

    def mapped(self, column: str, value: object, *keys: str) -> list[list[Any]]:
        """The lists of equal lengths that the mapping `value` has under `keys`."""
        if not isinstance(value, Mapping):
            raise self.error(column, f"must have a mapping, not {type(value).__name__}")
        for key in keys:
            if key not in value:
                raise self.error(column, f"has no key {key!r}")
        lists = [self.listed(column, value[key]) for key in keys]
        if len({len(one) for one in lists}) > 1:
            raise self.error(column, f"has lists of different lengths under {' and '.join(map(repr, keys))}")
        return lists
