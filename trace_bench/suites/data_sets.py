"""Published data sets that tasks of a suite read, and copies of them on this machine: what a suite must offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol


class HasRows(Protocol):
    """A split of a data set."""

    @property
    def rows(self) -> int: ...


class DataCopy(Protocol):
    """A data set as it was fetched.

    Attributes:
        revision: of the publisher.
        fetched: date.
        rows, size: number of rows, and of bytes.
    """

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def fetched(self) -> str: ...
    @property
    def licence(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def splits(self) -> Mapping[str, HasRows]: ...

    def damaged(self) -> list[str]:
        """Splits that are lost or have changed."""


class DataSet(Protocol):
    """A published data set.

    Attributes:
        tasks: ids of the tasks that read it.
        splits: names of the splits that they read.
    """

    @property
    def name(self) -> str: ...
    @property
    def tasks(self) -> tuple[str, ...]: ...
    @property
    def splits(self) -> tuple[str, ...]: ...
    @property
    def licence(self) -> str: ...
    @property
    def cite(self) -> str: ...

    def copy(self) -> DataCopy | None:
        """Return the copy on this machine, which may lack splits.

        Raises:
            ConfigError: the list of copies is damaged.
        """

    def fetch(self, *, mirror: str | None, revision: str | None, say: Callable[[str], None]) -> DataCopy:
        """Get its splits from the publisher, or from the server `mirror`, unless they are here.

        Raises:
            ConfigError: there is no such revision or split. EnvironmentUnavailable: the publisher cannot be reached.
        """

    def take(self, folder: Path, *, say: Callable[[str], None]) -> DataCopy:
        """Take its splits from a copy on disk.

        Raises:
            ConfigError: `folder` does not have them.
        """


def missing_splits(data_set: DataSet) -> list[str]:
    """The splits of a data set that are not on this machine."""
    copy = data_set.copy()
    return [name for name in data_set.splits if copy is None or name not in copy.splits]
