"""Runs on backend modal, against the loopback server (`tests.modal_server`)."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.cli import REPOSITORY, write_config
from tests.integration.faults import Trial
from trace_bench.images.lock import read_lock, record
from trace_bench.sandbox.labels import JOB

if TYPE_CHECKING:  # the service's client takes half a second to import
    from tests.modal_server.server import ModalServer
    from tests.modal_server.service import Sandbox

REGISTRY = "registry.example/lab"
"""Where the images of these tests seem to be: the server knows what the engine calls them."""
VARIABLES = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY)}
"""What stands in for an image in process mode."""


@dataclass(frozen=True)
class Pushed:
    """Images as they are after ``images push``.

    Attributes:
        home: with the lock that says so.
        names: by the name that Modal is told, what the local engine calls it.
    """

    home: Path
    names: Mapping[str, str]


@pytest.fixture(scope="session")
def pushed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    """Pushing takes a quarter of a minute: `test_modal_registry` does it, the others have a lock that says so."""
    pytest.importorskip("modal")
    home = tmp_path_factory.mktemp("pushed")
    shutil.copy(images / "images.lock.json", home)
    names = {}
    for family, pin in read_lock(home).images.items():
        digest = f"{REGISTRY}/trace-bench/{family}@{pin.image_id}"
        names[digest] = pin.ref
        record(replace(pin, repo_digest=digest), home=home)
    return Pushed(home, names)


@contextmanager
def served(pushed: Pushed, mode: Any = "docker", **settings: Any) -> Iterator[ModalServer]:
    """A server that has the images; nothing may run there in the end."""
    from tests.modal_server.server import ModalServer

    with ModalServer(mode, images=pushed.names, **settings) as server:
        yield server
        left = [sandbox.name for sandbox in server.running()]
        assert left == [], "this test left sandboxes behind"


@pytest.fixture
def modal_server(pushed: Pushed, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModalServer]:
    """A server in docker mode, which every controller of the test finds."""
    with served(pushed) as found:
        found_by_controllers(found, monkeypatch)
        yield found


@pytest.fixture
def quick_server(pushed: Pushed, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModalServer]:
    """As `modal_server`, in process mode: the worker is this package, and sandboxes start in no time."""
    with served(pushed, "process", variables=VARIABLES) as found:
        if not found.private:
            pytest.skip("sandboxes of processes are not kept apart here")
        found_by_controllers(found, monkeypatch)
        yield found


def found_by_controllers(server: ModalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def app() -> str:
    """An app of one's own: the pace of creation is shared by all controllers of an app."""
    return f"tests-{os.getpid()}-{time.time_ns()}"


def on_modal(**settings: Any) -> dict[str, Any]:
    """The keys of a config that put its jobs there."""
    return {"backend": "modal", "modal": {"app": app(), "image_registry": REGISTRY, **settings}}


def modal_config(folder: Path, *, modal: Mapping[str, Any] | None = None, **config: Any) -> Path:
    return write_config(folder, **on_modal(**(modal or {})), **config)


def job_of(sandbox: Sandbox) -> str:
    return sandbox.tags.get(JOB, "")


def of_job(job_id: str) -> Callable[[Any], bool]:
    """Whether a ``SandboxCreateV2`` is of that job."""
    return lambda request: any(tag.tag_name == JOB and tag.tag_value == job_id for tag in request.tags)


def running(server: ModalServer, job_id: str) -> Sandbox | None:
    found = [sandbox for sandbox in server.running() if job_of(sandbox) == job_id and sandbox.started_at is not None]
    return found[0] if found else None


@dataclass
class ModalTrial(Trial):
    """A run that is disturbed, on Modal; nothing may be left there."""

    server: ModalServer | None = None

    def left(self) -> list[str]:
        assert self.server is not None
        return [sandbox.id for sandbox in self.server.running()]
