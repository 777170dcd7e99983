"""The backend that a config asks for, with what the config says of it."""

from __future__ import annotations

import os
from typing import Any

from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.sandbox.backends import AUTO, get_backend
from trace_bench.sandbox.base import Backend

BACKEND_VARIABLE = "SANDBOX_BACKEND"
"""Names the backend where neither the command nor the config does."""


def backend_name(config: RunConfig) -> str:
    """The backend of `config`: its own, else that of the variable ``SANDBOX_BACKEND``, else docker."""
    name = config.backend if config.backend != AUTO else os.environ.get(BACKEND_VARIABLE) or AUTO
    return "docker" if name == AUTO else name


def backend_of(config: RunConfig) -> Backend:
    """The backend of `config`, checked and ready.

    Raises:
        ConfigError: there is none of that name. EnvironmentUnavailable: it cannot work here.
    """
    name = backend_name(config)
    options: dict[str, Any] = {}
    if name == "docker" and config.docker.hosts:
        options = {"hosts": config.docker.hosts}
    elif name == "modal":
        options = {"settings": config.modal}
    return get_backend(name, **options)


def registry_of(config: RunConfig) -> str:
    """Where Modal pulls its images from.

    Raises:
        ConfigError: the config does not say.
    """
    if config.modal.image_registry is None:
        raise ConfigError(
            f"{config.source.where(('modal', 'image_registry'))}: say where Modal is to pull the images from, such as "
            "modal: {image_registry: ghcr.io/you}, and push them: trace-bench images push core --registry ghcr.io/you"
        )
    return config.modal.image_registry
