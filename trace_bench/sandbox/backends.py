"""Finds backends by name, through the entry points ``trace_bench.backends``."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from trace_bench.config.places import DockerConfig, ModalConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import plug_ins
from trace_bench.sandbox.base import Backend

GROUP = "trace_bench.backends"
AUTO, DEFAULT = "auto", "docker"


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
    wanted = DEFAULT if name == AUTO else name
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


def options_of(name: str, docker: DockerConfig, modal: ModalConfig) -> dict[str, Any]:
    """The options of `get_backend` from sections of a config. With none, the name alone determines the backend."""
    if name == "docker" and docker.hosts:
        return {"hosts": docker.hosts}
    return {"settings": modal} if name == "modal" else {}


def missing_gpu_setting(name: str, modal: ModalConfig) -> str | None:
    """The setting that the backend `name` needs for sandboxes with GPUs, as a request to the user; None if none is
    missing."""
    if name == "modal" and modal.gpu is None:
        return "say which GPU Modal is to give, as in modal: {gpu: H100}"
    return None


def protects(name: str) -> bool:
    """Return True if results of the backend `name`, as records have it, can be protected."""
    return name != "local"


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in plug_ins(GROUP)}
