"""Images that were pushed to a registry run on Modal by their digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.images.test_registry import registry
from tests.integration.cli import cli, run
from tests.integration.modal_runs import on_modal

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

__all__ = ["registry"]
pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def address(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a registry; what the engine calls the images there goes with it."""
    import docker

    found: str = request.getfixturevalue("registry")
    yield found
    client = docker.from_env()
    for image in client.images.list(filters={"reference": f"{found}/*/*"}):
        for tag in image.tags:
            if tag.startswith(f"{found}/"):
                client.images.remove(tag)  # the digest goes with it
    client.close()


def test_what_was_pushed_runs_by_its_digest(
    images: Path, modal_server: ModalServer, address: str, tmp_path: Path
) -> None:
    """The server knows no other name of it."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(images / "images.lock.json", home)
    done = cli("images", "push", "core", "--registry", address, home=home)
    assert done.returncode == 0, done.stderr
    digest = done.stdout.split("\t")[2].strip()
    result = run(tmp_path, home, tasks=["internal:numeric_param"], trainers=["NoOp"], seeds=[1],
                 **on_modal(image_registry=address))  # fmt: skip
    (row,) = result["jobs"]
    assert row["status"] == "ok", row["feedback"]
    meta = json.loads((Path(result["folder"]) / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert meta["image"]["ref"] == digest and digest.startswith(f"{address}/trace-bench/core@sha256:")
