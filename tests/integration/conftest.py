"""Whole runs against a real engine: the images are built once, into a lock of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY, cli


@pytest.fixture(scope="session")
def engine() -> str:
    """Skips, loudly, where there is no engine."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
        version = str(client.version()["Version"])
        client.close()
    except DockerException as error:
        pytest.skip(f"no engine answers: {error}")
    return version


@pytest.fixture(scope="session")
def home() -> Path:
    """Where the tests' image lock lies; kept between runs, so that only what changed is built."""
    folder = Path(os.environ.get("TRACE_BENCH_TEST_HOME", REPOSITORY / ".cache" / "test-home"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def images(engine: str, home: Path) -> Path:
    """Families core and llm4ad, built from today's recipes; returns the lock's home."""
    done = cli("images", "build", "core", "llm4ad", home=home, timeout=900)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "images" not in request.fixturenames:
        return
    import docker

    client = docker.from_env()
    try:
        left = client.containers.list(all=True, filters={"label": "trace-bench.run"})
        volumes = client.volumes.list(filters={"label": "trace-bench.run"})
        names = [c.name for c in left] + [v.name for v in volumes]
        for container in left:
            container.remove(force=True)
        for volume in volumes:
            volume.remove(force=True)
    finally:
        client.close()
    assert names == [], "this test left sandboxes behind"
