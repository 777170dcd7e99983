"""The backend that a config names, or that a run of this user was started on.

**Commands take no hosts from a run's folder.** The folder may be untrusted: its snapshot may name an ``ssh://`` host, a
folder of certificates or an app, and a user who only looks at the run must not contact them. So a run that is started
on hosts of its own has them recorded among the *user's* data (`remember_backend`), where later commands find them by
the run's id. For other hosts, the user names a config.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo
from trace_bench.config.models import RunConfig
from trace_bench.config.places import DockerConfig, ModalConfig
from trace_bench.config.values import Section
from trace_bench.errors import ConfigError
from trace_bench.homes import data_home
from trace_bench.sandbox.backends import AUTO, DEFAULT, backend_names, get_backend, options_of
from trace_bench.sandbox.base import Backend

BACKEND_VARIABLE = "SANDBOX_BACKEND"
"""Names the backend if neither the command nor the config does."""
REMEMBERED = 1000
"""Runs whose backends are recorded, the newest."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class BackendChoice(BaseModel):
    """A backend, and the hosts or services where it makes sandboxes. Made of sections of a config."""

    model_config = Section.model_config

    backend: str = AUTO
    docker: DockerConfig = DockerConfig()
    modal: ModalConfig = ModalConfig()

    @classmethod
    def of(cls, config: RunConfig) -> BackendChoice:
        return cls(backend=backend_name(config.backend), docker=config.docker, modal=config.modal)

    @property
    def is_default(self) -> bool:
        """Whether the backend's name alone determines it."""
        return not options_of(self.backend, self.docker, self.modal)


def backend_name(name: str) -> str:
    """The backend that `name` means: itself, else that of the variable ``SANDBOX_BACKEND``, else docker.

    Raises:
        ConfigError: the variable names an unknown backend.
    """
    if name != AUTO:
        return name
    named = os.environ.get(BACKEND_VARIABLE) or AUTO
    if named != AUTO and named not in (known := backend_names()):
        raise ConfigError(
            f"the variable {BACKEND_VARIABLE} is {named!r}, and no backend is called so; known are "
            f"{', '.join([AUTO, *known])}"
        )
    return DEFAULT if named == AUTO else named


def backend_of(config: RunConfig) -> Backend:
    """The backend of `config`, checked and ready; errors as of `connect_backend`."""
    return connect_backend(BackendChoice.of(config))


def connect_backend(choice: BackendChoice) -> Backend:
    """The backend of `choice`, checked and ready.

    Raises:
        ConfigError: there is no backend of that name. EnvironmentUnavailable: it cannot work here.
    """
    name = backend_name(choice.backend)
    try:
        return get_backend(name, **options_of(name, choice.docker, choice.modal))
    except ConfigError as error:
        if os.environ.get(BACKEND_VARIABLE) != name:
            raise
        raise ConfigError(f"{error} (the variable {BACKEND_VARIABLE} is {name!r})") from error


def registry_of(config: RunConfig) -> str:
    """The registry from which Modal pulls images.

    Raises:
        ConfigError: the config names none.
    """
    if config.modal.image_registry is None:
        raise ConfigError(
            f"{config.source.where(('modal', 'image_registry'))}: say where Modal is to pull the images from, such as "
            "modal: {image_registry: ghcr.io/you}, and push them: trace-bench images push core --registry ghcr.io/you"
        )
    return config.modal.image_registry


def backend_choice_of_run(run_id: str, layout: RunLayout | None = None) -> BackendChoice:
    """The backend on which this user started a run; of an unknown run, the default hosts of the backend that its
    ``env.json`` names."""
    found = _remembered(run_id)
    if found is not None:
        return found
    name = _backend_facts(layout).get("backend") if layout is not None else AUTO
    return BackendChoice(backend=name if isinstance(name, str) else AUTO)


def has_unknown_hosts(layout: RunLayout) -> bool:
    """Whether an unfinished run records that it had hosts, and this user has no record of them."""
    unfinished = layout.salt.is_file()  # removed when a run finishes, and part of no export
    return unfinished and _remembered(layout.run_id) is None and bool(_backend_facts(layout).get("hosts"))


def remember_backend(run_id: str, choice: BackendChoice) -> None:
    """Record the backend of a run for later commands of the same user, unless it is the default.

    A file that cannot be written is no error: a config can name the hosts.
    """
    path = _path(run_id)
    if path is None:
        return
    with contextlib.suppress(OSError):
        if choice.is_default:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(choice.model_dump(mode="json"), file)
        Path(file.name).replace(path)
        there = sorted(path.parent.iterdir(), key=lambda other: other.stat().st_mtime)
        for old in there[: max(0, len(there) - REMEMBERED)]:
            old.unlink(missing_ok=True)


def forget_backend(run_id: str) -> None:
    """Remove the record of a run that was removed."""
    if (path := _path(run_id)) is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _remembered(run_id: str) -> BackendChoice | None:
    path = _path(run_id)
    try:
        return BackendChoice.model_validate(json.loads(path.read_bytes())) if path is not None else None
    except (OSError, ValueError, ValidationError):
        return None


def _path(run_id: str) -> Path | None:
    return data_home() / "places" / f"{run_id}.json" if _RUN_ID.fullmatch(run_id) else None


def _backend_facts(layout: RunLayout) -> Mapping[str, Any]:
    try:
        return read_model(EnvInfo, layout.env.read_bytes()).backend
    except (OSError, JsonError):
        return {}
