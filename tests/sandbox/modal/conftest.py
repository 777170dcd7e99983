"""A loopback server whose sandboxes are processes, and labs on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.modal_server.server import ModalServer
from tests.sandbox.conformance import Lab
from trace_bench.config.places import ModalConfig
from trace_bench.sandbox.modal import ModalBackend

IMAGE = "registry.test/base@sha256:" + "0" * 64


@pytest.fixture(scope="module")
def _server() -> Iterator[tuple[ModalServer, Lab]]:
    with ModalServer() as server, server.client() as client:
        if not server.private:
            pytest.skip("needs root: a process must give up what a supervisor has no right to")
        backend = ModalBackend(ModalConfig(gpu="H100", region="eu-west", creations_per_second=100), client=client)
        yield server, Lab(backend, IMAGE, environment=server.environment)


@pytest.fixture
def server(_server: tuple[ModalServer, Lab]) -> Iterator[ModalServer]:
    yield _server[0]
    _server[0].trouble.clear()


@pytest.fixture
def lab(_server: tuple[ModalServer, Lab], server: ModalServer) -> Iterator[Lab]:
    yield _server[1]
    server.trouble.clear()
    _server[1].sweep()
