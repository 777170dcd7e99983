"""Labs: one per backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import RUNTIME, base_image, engine_answers
from tests.modal_server.server import ModalServer
from tests.sandbox.conformance import Lab
from trace_bench.config import load_config
from trace_bench.images.pins import pushed
from trace_bench.planning.backends import backend_of, registry_of
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.local import STATE_DIR_VARIABLE, LocalBackend
from trace_bench.sandbox.modal import ModalBackend
from trace_bench.sandbox.runtimes import NOT_UNDER_GVISOR


@pytest.fixture(scope="session")
def docker_lab() -> Iterator[Lab]:
    if not engine_answers():
        pytest.skip("no Docker engine answers")
    without = {**NOT_UNDER_GVISOR, "pids": "the engine counts gVisor's threads"} if RUNTIME == "runsc" else {}
    lab = Lab(DockerBackend(), base_image(), runtime=RUNTIME, without=without)
    yield lab
    lab.sweep()


@pytest.fixture(scope="session")
def local_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder: Path = tmp_path_factory.mktemp("sandboxes")
    lab = Lab(LocalBackend(folder), "none", environment={STATE_DIR_VARIABLE: str(folder)})
    yield lab
    lab.sweep()


@pytest.fixture(scope="session")
def modal_lab() -> Iterator[Lab]:
    if named := os.environ.get("TRACE_BENCH_MODAL_CONFIG"):  # an account of the service: see scripts/check-modal
        config = load_config(Path(named), {"backend": "modal"})
        lab = Lab(backend_of(config), pushed("core", registry_of(config)).ref)
        yield lab
        lab.sweep()
        return
    if not engine_answers():
        pytest.skip("no Docker engine answers")
    reference = "registry.test/base@sha256:" + "0" * 64
    with ModalServer("docker", images={reference: base_image()}) as server, server.client() as client:
        lab = Lab(ModalBackend(client=client), reference, environment=server.environment)
        yield lab
        lab.sweep()
