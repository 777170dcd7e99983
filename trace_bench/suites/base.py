"""The description of a suite. Standard library only: suites are imported on the host and inside the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class MadeTasks(NamedTuple):
    """Task folders that were made of published data.

    Attributes:
        folders: texts of files by their names, by name of the folder.
        left_out: why a task could not be made, by the name it would have had.
    """

    folders: dict[str, Mapping[str, str]]
    left_out: dict[str, str]


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
        maker: ``module:function`` that makes task folders of published data, on the host: it takes a path, and returns
            `MadeTasks`. Empty if there is none.
        any_task: a folder below `root` that stands for every task that has no folder of its own: who says which there
            are is asked when it is run. Empty if there is none.
        services: ``module:class`` of each service of the host that its jobs ask (`trace_bench.suites.service`).
    """

    name: str
    title: str
    image: str
    root: str
    builder: str
    listed: bool = True
    maker: str = ""
    services: tuple[str, ...] = ()
    any_task: str = ""
