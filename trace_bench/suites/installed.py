"""The installed suites: entry points of the group ``trace_bench.suites``."""

from __future__ import annotations

from pathlib import Path

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import plug_ins
from trace_bench.suites.base import Suite

GROUP = "trace_bench.suites"


def load_suites() -> dict[str, Suite]:
    """Every installed suite, by name.

    Raises:
        EnvironmentUnavailable: the package is not installed, so that there are no entry points.
        ConfigError: a plug-in's entry point cannot be loaded.
    """
    points = plug_ins(GROUP)
    if not points:
        raise EnvironmentUnavailable(
            f"no installed package declares an entry point of the group {GROUP!r}; install trace-bench with "
            "'pip install -e .' (or 'pip install .') in the Python that runs it"
        )
    suites: dict[str, Suite] = {}
    for point in points:
        try:
            suite = point.load()
        except Exception as error:
            raise ConfigError(
                f"suite {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}; "
                "repair or uninstall that package"
            ) from error
        if not isinstance(suite, Suite):
            raise ConfigError(f"suite {point.name!r} ({point.value}) is no Suite; repair or uninstall that package")
        suites[suite.name] = suite
    return suites


def reader_of(path: Path) -> Suite | None:
    """The suite that reads the task at `path`, a file or a folder in a format of its own; None for other folders."""
    return next((suite for suite in load_suites().values() if suite.reads(path)), None)


def suites_with(method: str) -> dict[str, Suite]:
    """The installed suites that have a method of `Suite` of their own, by name."""
    return {
        name: suite
        for name, suite in load_suites().items()
        if getattr(type(suite), method) is not getattr(Suite, method)
    }
