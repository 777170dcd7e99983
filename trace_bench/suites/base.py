"""What a suite is. Standard library only: suites are imported on the host and inside the sandbox."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    name: str
    title: str
    image: str
    root: str
    builder: str
    listed: bool = True
