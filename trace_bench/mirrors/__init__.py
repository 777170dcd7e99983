"""Copies of finished jobs and runs for other tools. They are made from the files of a run and never change it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError, EnvironmentUnavailable

PACKAGES = {"mlflow": "mlflow", "tensorboard": "tensorboardX"}
"""Package that a mirror needs; the extra of this package that has it is called like the mirror."""


class MirrorError(EnvironmentUnavailable):
    """The server refuses, hangs or cannot be reached. The run is untouched; ``trace-bench mirror`` sends it again."""


@dataclass(frozen=True)
class Mirrored:
    """The result of a copy.

    Attributes:
        place: folder or server, without user and password.
        jobs: number of jobs there, `changed` of them by this copy.
        problems: a sentence for each part that could not be copied.
    """

    place: str
    jobs: int
    changed: int
    problems: tuple[str, ...] = ()


def missing_package(name: str) -> str | None:
    """Return a sentence without its end about the missing package of mirror `name`; None if it is installed."""
    if importlib.util.find_spec(PACKAGES[name]) is not None:
        return None
    return f"{PACKAGES[name]} is not installed: pip install 'trace-bench[{name}]'"


def check_mirror(name: str) -> None:
    """Check that mirror `name` exists, and that its package is installed.

    Raises:
        ConfigError: there is no such mirror. EnvironmentUnavailable: its package is not installed.
    """
    if name not in PACKAGES:
        raise ConfigError(f"there is no mirror {name!r}{hint(name, PACKAGES)}")
    if (reason := missing_package(name)) is not None:
        raise EnvironmentUnavailable(f"mirror {name}: {reason}")
