"""Finds backends by name, through the entry points ``trace_bench.backends``."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import plug_ins
from trace_bench.sandbox.base import Backend

GROUP = "trace_bench.backends"
AUTO = "auto"


def backend_names() -> list[str]:
    """Names of all installed backends, sorted."""
    return sorted(_installed())


def get_backend(name: str = AUTO, **options: Any) -> Backend:
    """The backend `name`, checked and ready.

    ``auto`` is Docker. It never falls back to a weaker backend, since the value of a run's numbers depends on it.

    Args:
        options: passed on to the backend's class.

    Raises:
        ConfigError: no backend has that name.
        EnvironmentUnavailable: it cannot work on this machine.
    """
    installed = _installed()
    wanted = "docker" if name == AUTO else name
    if wanted not in installed:
        known = ", ".join([AUTO, *sorted(installed)])
        raise ConfigError(f"backend: no backend is called {name!r}; known are {known}")
    try:
        factory = installed[wanted].load()
    except ImportError as error:
        raise EnvironmentUnavailable(
            f"backend {wanted!r} needs the package {error.name!r}, which is not installed; "
            "install it, or choose another backend."
        ) from error
    backend: Backend = factory(**options)
    try:
        backend.check()
    except EnvironmentUnavailable as error:
        if backend.integrity == "protected" and wanted != "modal" and "local" in installed:
            raise EnvironmentUnavailable(
                f"{error} Without an engine, --backend local runs jobs as plain processes; "
                "their results are marked unprotected."
            ) from error
        raise
    return backend


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in plug_ins(GROUP)}
