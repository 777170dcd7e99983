"""Servers that tests share, one per module, and handles of their clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import modal
import pytest

from tests.modal_server.server import ModalServer

REFERENCE = "registry.test/base@sha256:" + "0" * 64


def image() -> modal.Image:
    """The test image. A new object each time: the first server that one meets gives it its id for good."""
    return modal.Image.from_registry(REFERENCE)


@dataclass
class Account:
    """A server, a client of it, and an app there."""

    server: ModalServer
    client: modal.Client
    app: modal.App

    def create(self, *argv: str, **options: Any) -> modal.Sandbox:
        """A sandbox from the test image."""
        return modal.Sandbox.create(*argv, app=self.app, client=self.client, **{"image": image(), **options})

    def listed(self, **tags: str) -> list[str]:
        return [one.object_id for one in modal.Sandbox.list(app_id=self.app.app_id, tags=tags, client=self.client)]


@pytest.fixture(scope="module")
def processes() -> Iterator[Account]:
    with ModalServer() as server, server.client() as client:
        yield Account(server, client, modal.App.lookup("tests", create_if_missing=True, client=client))


@pytest.fixture
def account(processes: Account) -> Iterator[Account]:
    """Process mode, without the trouble of the test before."""
    yield processes
    processes.server.trouble.clear()


@pytest.fixture(params=["v2", "v1"])
def family(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MODAL_SANDBOX_V2", "1" if request.param == "v2" else "0")
    return str(request.param)
