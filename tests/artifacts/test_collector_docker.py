"""The collector on what a real engine hands out."""

from __future__ import annotations

import io
import os
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from tests.artifacts.archives import GOOD, member
from trace_bench.artifacts.collector import collect
from trace_bench.errors import CollectError

pytestmark = pytest.mark.docker
LABEL = "trace-bench-test.collector"


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except DockerException as error:
        pytest.skip(f"no engine answers: {error}")
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(engine: Any) -> Iterator[str]:
    """An image with nothing in it: its containers are only looked into, never started."""
    tag = f"trace-bench-test/empty:{uuid.uuid4().hex[:8]}"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(member("out", type=tarfile.DIRTYPE, mode=0o755)[0])
    engine.api.import_image_from_data(buffer.getvalue(), repository=tag.split(":")[0], tag=tag.split(":")[1])
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture
def container(engine: Any, image: str) -> Iterator[Any]:
    created = engine.containers.create(image, ["/none"], labels={LABEL: str(os.getpid())})
    yield created
    created.remove(force=True)


def _put(container: Any, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    assert container.put_archive("/out", buffer.getvalue())


def _get(container: Any) -> Iterator[bytes]:
    chunks, _ = container.get_archive("/out")
    return iter(chunks)


def test_a_volume_is_collected_from_an_engine(container: Any, tmp_path: Path) -> None:
    long_name = "extra/" + "d" * 120 + "/" + "f" * 150
    files = {**GOOD, long_name: b"long", "extra/big": os.urandom(3 << 20)}
    _put(container, [member(name, data, uid=200001, mtime=1.5) for name, data in files.items()])
    got = collect(_get(container), tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files} == files
    assert got.result is not None
    assert got.events == 3


def test_a_link_in_a_volume_is_refused(container: Any, tmp_path: Path) -> None:
    _put(container, [member("extra/a", type=tarfile.SYMTYPE, linkname="/etc/shadow")])
    with pytest.raises(CollectError, match="extra/a is a symbolic link"):
        collect(_get(container), tmp_path / "out")
    assert list(tmp_path.rglob("*shadow*")) == []
