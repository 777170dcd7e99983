"""The instances in a user's published data files, as a task's ``read(text, name)`` parses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from trace_bench.suites.best_known import name_of
from trace_bench.suites.data_files import DataError, Files
from trace_bench.worker.problem import ProblemError

Instance = Mapping[str, Any]


class Published:
    """The instances of a task's files. Each file is parsed once."""

    def __init__(self, files: Files, read: Callable[..., list[Instance]] | None) -> None:
        self._files = files
        self._read = read
        self._there: dict[str, list[Instance]] = {}
        self._names: dict[int, str] = {}

    def instances(self, split: str, **settings: Any) -> list[Instance]:
        """The instances in the files of `split`, parsed once.

        Args:
            settings: of the task; those that ``read`` names as keywords are given to it.

        Raises:
            ProblemError: the task reads no files, or a file is of another format; the message names file and line.
        """
        if self._read is None:
            raise ProblemError("this task reads no published data; run it without the data folder")
        named = inspect.signature(self._read).parameters
        taken = {name: value for name, value in settings.items() if name in named}
        if split not in self._there:
            found: list[Instance] = []
            for name, text in self._files.texts(split):
                try:
                    there = self._read(text, name, **taken)
                except DataError as error:
                    raise ProblemError(f"data file {name}: {error}") from error
                except (ValueError, ArithmeticError, LookupError, MemoryError) as error:
                    said = f"{type(error).__name__}: {error}"
                    raise ProblemError(
                        f"data file {name} is not of the format that this task reads ({said})"
                    ) from error
                self._names.update((id(one), name_of(name, number)) for number, one in enumerate(there, 1))
                found += there
            self._there[split] = found
        return self._there[split]

    def name(self, instance: Instance) -> str | None:
        """The name of an instance that comes from a file."""
        return self._names.get(id(instance))
