"""The interface of a suite. Standard library only: suites are imported on the host and inside the sandbox.

A suite is an object of the class `Suite`, or of a subclass in the suite's own folder. Shared code knows suites by this
class alone: each method is a question that it asks, and has the answer of a suite with plain task folders. Methods run
on the host; what they need beyond the standard library is imported in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from trace_bench.suites.data_sets import DataCopy, DataSet
    from trace_bench.suites.tables import Statistics, SuiteTable


class MadeTasks(NamedTuple):
    """Task folders that were made of published data.

    Attributes:
        folders: texts of files by their names, by name of the folder.
        left_out: why a task could not be made, by the name it would have had.
    """

    folders: dict[str, Mapping[str, str]]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a file of examples.

    Attributes:
        options: the column with the list of options, or one column for each option. Empty unless the metric is choice.
    """

    question: str = "question"
    answer: str = "answer"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """A benchmark family.

    Attributes:
        name: as it stands before the colon of a task id.
        title: for people.
        image: the image family its jobs run in.
        root: folder under ``benchmarks/`` that holds its task folders (each with a ``task.toml``); the path of a task
            folder below it is the task's name.
        builder: ``module:function`` that builds a `Problem` from a `BuildContext`, imported inside the sandbox only.
        listed: whether its tasks are among all tasks; else only who names the suite sees them.
        services: ``module:class`` of each service of the host that its jobs ask (`trace_bench.suites.service`).
        any_task: a folder below `root` that stands for every task that has no folder of its own: who says which there
            are is asked when it is run. Empty if there is none.
        tables: tables of a ``task.toml`` that belong to the suite: it completes the spec of a task that has one, and
            builds its problem, whatever suite the task is of.
        checkout: the last two parts of the path of a checkout of the suite, which takes the place of `root` if a user
            names it. Empty if there is none.
        in_roots: a user's folder without any task is an error where tasks of this suite are looked for.
    """

    name: str
    title: str
    image: str
    root: str
    builder: str
    listed: bool = True
    services: tuple[str, ...] = ()
    any_task: str = ""
    tables: tuple[str, ...] = ()
    checkout: tuple[str, ...] = ()
    in_roots: bool = False

    # ---------------------------------------------------------------------------------------- tasks of other formats

    def reads(self, path: Path) -> bool:
        """Return True if `path`, a folder or a file, is a task in a format of the suite's own."""
        return False

    def tasks_in(self, folder: Path, name: str, content: Collection[str]) -> Iterator[tuple[str, Path]]:
        """Yield the name and the path of each task in such a format that is `folder` itself, or a file in it.

        Args:
            name: path of `folder` below a folder that the user names.
            content: names of what is in `folder`, so that a walk opens nothing in vain.
        """
        yield from ()

    def described(self, path: Path) -> dict[str, Any]:
        """Return the substitute for the ``task.toml`` of such a task.

        Raises:
            ConfigError: the task cannot be read.
        """
        raise NotImplementedError

    def members(self, path: Path) -> Iterable[tuple[str, Path | bytes]]:
        """Return name and content of the files of such a task that is a single file."""
        raise NotImplementedError

    def sends(self, name: str) -> bool:
        """Return True if a sandbox gets the file `name` of such a task."""
        return True

    # ------------------------------------------------------------------------------------------ tasks with its tables

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return `raw`, a ``task.toml`` with one of `tables`, with what it leaves out.

        Raises:
            ConfigError: the table is wrong.
        """
        return dict(raw)

    def needed_files(self, raw: Mapping[str, Any]) -> Iterable[str]:
        """Return the files that the folder of such a task must have."""
        return ("problem.py",)

    # ------------------------------------------------------------------------------------------------ published data

    def data_sets(self, tasks: Iterable[tuple[str, Mapping[str, Any]]]) -> Sequence[DataSet]:
        """Return the published data sets that `tasks` read from outside their folders, each once.

        Args:
            tasks: id and ``task.toml`` (as completed) of each.
        """
        return ()

    def data_files(self, raw: Mapping[str, Any], *, fetched: bool) -> tuple[tuple[str, bytes], ...]:
        """Return ``(path in the task folder, content)`` of the data of a task that reads a data set.

        Args:
            fetched: take the data set, if it was fetched, beside the few rows that come with the program.

        Raises:
            ConfigError: what was fetched is damaged.
        """
        return ()

    def data_copies(self) -> Sequence[DataCopy]:
        """Return all data sets that were fetched for this suite."""
        return ()

    # -------------------------------------------------------------------------------------------------- this machine

    def install(self, python: Path | None, say: Callable[[str], None]) -> Path:
        """Install the program that the suite's services need, with `python`, and return it.

        Raises:
            EnvironmentUnavailable: it cannot be installed.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------- results

    def table_of(self, jobs: pd.DataFrame, statistics: Statistics) -> SuiteTable | None:
        """Return the suite's own table of a run; None if it has none.

        Args:
            jobs: jobs of the suite that count, a row each, with the columns of ``results.csv``.
        """
        return None

    # ----------------------------------------------------------------------------------------- tasks of a user's data

    def new_tasks(self, source: Path) -> MadeTasks:
        """Return task folders made of the published data at `source`. Without this method, it makes none.

        Raises:
            ConfigError: the data cannot be read.
        """
        raise NotImplementedError

    def task_of_examples(self, source: Path, columns: Columns, metric: str, seed: int, title: str) -> dict[str, str]:
        """Return the texts, by path, of a task that optimizes a prompt on the labelled examples in `source`.

        Args:
            metric: name of the rule that judges an answer.
            seed: of the split.

        Raises:
            ConfigError: the metric is unknown, or the examples cannot be used.
        """
        raise NotImplementedError
