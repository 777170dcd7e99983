"""Runs on Modal's loopback server, whose sandboxes are containers of the local engine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.modal_server.server import ModalServer
from trace_bench.images.lock import read_lock, record

REGISTRY = "registry.test/bench"


@dataclass(frozen=True)
class Service:
    """A server, and what a run needs to go there.

    Attributes:
        home: with a lock by which all images have been pushed.
        config: keys of a config.
        environment: variables of the command.
    """

    server: ModalServer
    home: Path
    config: dict[str, Any]
    environment: dict[str, str]


def as_pushed(images: Path, home: Path) -> dict[str, str]:
    """Make `home` one by whose lock the images of `images` have been pushed, without pushing them, which takes long.

    Returns, by the name that Modal is told, what the engine calls each.
    """
    home.mkdir(parents=True)
    shutil.copy(images / "images.lock.json", home)
    tags = {}
    for family, pin in read_lock(home).images.items():
        assert pin.image_id is not None
        digest = f"{REGISTRY}/trace-bench/{family}@{pin.image_id}"
        tags[digest] = pin.ref
        record(replace(pin, repo_digest=digest), home=home)
    return tags


@contextlib.contextmanager
def service(images: Path, folder: Path, **trouble: Any) -> Iterator[Service]:
    """The server, as if the images of the home `images` had been pushed to where it pulls from."""
    home = folder / "home"
    tags = as_pushed(images, home)
    with ModalServer("docker", images=tags, **trouble) as server:
        config = {"backend": "modal", "modal": {"image_registry": REGISTRY}}
        yield Service(server, home, config, server.environment)
