"""Whole runs against a real engine: the images are built once, into a lock of the tests' own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from tests.integration.modal_runs import modal_server, pushed, quick_server
from tests.recorded import record
from tests.suites.veribench.support import toolchain
from trace_bench.artifacts.layout import RunLayout

__all__ = ["modal_server", "pushed", "quick_server"]

_BEGAN = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


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


@pytest.fixture(scope="session")
def kernels(images: Path) -> Path:
    """The lock's home, with the image of kernels."""
    done = cli("images", "build", "kernelbench-cpu", home=images, timeout=900)
    if done.returncode != 0:
        pytest.skip(f"the image kernelbench-cpu cannot be built: {done.stderr.strip()}")
    return images


@pytest.fixture(scope="session")
def lean(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lock's home, with the image of Lean, in which a program of ours stands in for Lean."""
    archive = toolchain(tmp_path_factory.mktemp("toolchain") / "lean-stand-in.zip")
    done = cli("images", "build", "lean", "--toolchain", str(archive), home=images, timeout=600)
    assert done.returncode == 0, done.stderr
    return images


@pytest.fixture(scope="session")
def recorded_in_containers(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunLayout:
    """As `tests.recorded.recorded`, in containers: protected, with every control in force; no test may change it.

    Four jobs of two seeds, and eight under --full.
    """
    trainers: list[Any] = [{"id": "PrioritySearch", "params": {"num_steps": 2, "num_proposals": 2}}]
    if request.config.getoption("--full"):
        trainers.insert(0, {"id": "NoOp"})
    return record(
        tmp_path_factory.mktemp("contained"),
        images,
        backend="docker",
        run_id="20260102-030405-contained",
        tasks=["internal:multiobjective_convex", "llm4ad:optimization/knapsack_construct"],
        trainers=trainers,
        seeds=[1, 2],
    )


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    if "images" not in request.fixturenames:
        return
    import docker

    base = tmp_path_factory.getbasetemp()
    client = docker.from_env().api
    wanted = {"label": "trace-bench.run"}
    left = [
        c["Names"][0].lstrip("/") for c in client.containers(all=True, filters=wanted) if _is_ours(c["Labels"], base)
    ]
    volumes = [v["Name"] for v in client.volumes(filters=wanted)["Volumes"] or [] if _is_ours(v["Labels"], base)]
    for name in left:
        client.remove_container(name, force=True)
    for name in volumes:
        client.remove_volume(name, force=True)
    client.close()
    assert left + volumes == [], "this test left sandboxes behind"


def _is_ours(labels: dict[str, str], base: Path) -> bool:
    """True for what `trace-bench run` made for a run below `base` since these tests began, its controller gone.
    Others run jobs, and kill controllers, on this engine too."""
    from trace_bench.errors import EnvironmentUnavailable
    from trace_bench.sandbox.labels import RUN, UID_BASE
    from trace_bench.sandbox.uids import UidBlocks

    run = labels.get(RUN, "")
    if re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", run) is None or run < _BEGAN:
        return False
    try:
        UidBlocks().adopt(int(labels[UID_BASE])).release()
    except EnvironmentUnavailable:
        return False
    return any(base.rglob(run))
