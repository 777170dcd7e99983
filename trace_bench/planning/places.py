"""The backend that a config asks for, or that a run of this user was started on.

**Whose hosts are asked.** A run's folder may be a stranger's, and what its snapshot names (an ``ssh://`` host, a folder
of certificates, an app) is then not to be contacted by somebody who only wanted to look. So commands never take places
from a run's folder. Where a run is started that has places of its own, they are written down among the *user's* data
(`remember`), and found again there by the run's id; whoever wants others names a config.
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

from trace_bench.artifacts.jsonio import JsonError, printable, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo
from trace_bench.config.models import RunConfig
from trace_bench.config.places import DockerConfig, ModalConfig
from trace_bench.config.values import Section
from trace_bench.errors import ConfigError
from trace_bench.images.paths import data_home
from trace_bench.sandbox.backends import AUTO, backend_names, get_backend
from trace_bench.sandbox.base import Backend

BACKEND_VARIABLE = "SANDBOX_BACKEND"
"""Names the backend where neither the command nor the config does."""
REMEMBERED = 1000
"""Runs whose places are kept, the newest."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class Places(BaseModel):
    """A backend, and where it is to make or look for sandboxes. No section of a config: it is made of some."""

    model_config = Section.model_config

    backend: str = AUTO
    docker: DockerConfig = DockerConfig()
    modal: ModalConfig = ModalConfig()

    @classmethod
    def of(cls, config: RunConfig) -> Places:
        return cls(backend=backend_name(config.backend), docker=config.docker, modal=config.modal)

    @property
    def are_the_usual(self) -> bool:
        """Whether the name of the backend says all of it."""
        return self.backend != "modal" and not (self.backend == "docker" and self.docker.hosts)


def backend_name(name: str) -> str:
    """The backend that `name` means: itself, else that of the variable ``SANDBOX_BACKEND``, else docker.

    Raises:
        ConfigError: the variable names none.
    """
    if name != AUTO:
        return name
    named = os.environ.get(BACKEND_VARIABLE) or AUTO
    if named != AUTO and named not in (known := backend_names()):
        raise ConfigError(
            f"the variable {BACKEND_VARIABLE} is {printable(named, 80)!r}, and no backend is called so; known are "
            f"{', '.join([AUTO, *known])}"
        )
    return "docker" if named == AUTO else named


def backend_of(config: RunConfig) -> Backend:
    """The backend of `config`, checked and ready; errors as of `backend_at`."""
    return backend_at(Places.of(config))


def backend_at(places: Places) -> Backend:
    """The backend at `places`, checked and ready.

    Raises:
        ConfigError: there is none of that name. EnvironmentUnavailable: it cannot work here.
    """
    name = backend_name(places.backend)
    options: dict[str, Any] = {}
    if name == "docker" and places.docker.hosts:
        options = {"hosts": places.docker.hosts}
    elif name == "modal":
        options = {"settings": places.modal}
    try:
        return get_backend(name, **options)
    except ConfigError as error:
        if os.environ.get(BACKEND_VARIABLE) != name:
            raise
        raise ConfigError(f"{error} (the variable {BACKEND_VARIABLE} is {name!r})") from error


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


def places_of_run(run_id: str, layout: RunLayout | None = None) -> Places:
    """Where this user's run of that id has its sandboxes; of another one, only the backend that its ``env.json``
    names, at its usual place."""
    found = _remembered(run_id)
    if found is not None:
        return found
    return Places(backend=_recorded(layout) if layout is not None else AUTO)


def names_others(layout: RunLayout) -> bool:
    """Whether the run, which has not finished, says that it had hosts, and none is known to be the user's."""
    unfinished = layout.salt.is_file()  # it goes when a run has finished, and is in no export
    return unfinished and _remembered(layout.run_id) is None and bool(_facts(layout).get("hosts"))


def remember(run_id: str, places: Places) -> None:
    """Keep `places` of a run for later commands of the same user; what is usual needs no keeping.

    No run fails over it: where nothing can be written, a config names the hosts.
    """
    path = _path(run_id)
    if path is None:
        return
    with contextlib.suppress(OSError):
        if places.are_the_usual:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(places.model_dump(mode="json"), file)
        Path(file.name).replace(path)
        there = sorted(path.parent.iterdir(), key=lambda other: other.stat().st_mtime)
        for old in there[: max(0, len(there) - REMEMBERED)]:
            old.unlink(missing_ok=True)


def forget(run_id: str) -> None:
    """The run is gone."""
    path = _path(run_id)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _remembered(run_id: str) -> Places | None:
    path = _path(run_id)
    try:
        return Places.model_validate(json.loads(path.read_bytes())) if path is not None else None
    except (OSError, ValueError, ValidationError):
        return None


def _path(run_id: str) -> Path | None:
    return data_home() / "places" / f"{run_id}.json" if _RUN_ID.fullmatch(run_id) else None


def _recorded(layout: RunLayout) -> str:
    name = _facts(layout).get("backend")
    return name if isinstance(name, str) else AUTO


def _facts(layout: RunLayout) -> Mapping[str, Any]:
    try:
        return read_model(EnvInfo, layout.env.read_bytes()).backend
    except (OSError, JsonError):
        return {}
