"""The machines: one boots for all tests of its release, and ends with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import engine, home, images
from tests.vm.machine import Machine

__all__ = ["engine", "home", "images"]


def running(release: str, images: Path) -> Iterator[Machine]:
    machine = Machine(release)
    machine.give_images(images)
    yield machine
    if not machine.was_up:
        machine.pull_the_plug()


@pytest.fixture(scope="session")
def bookworm(images: Path) -> Iterator[Machine]:
    yield from running("bookworm", images)


@pytest.fixture(scope="session")
def trixie(images: Path) -> Iterator[Machine]:
    yield from running("trixie", images)


@pytest.fixture(scope="session")
def elsewhere(images: Path, home: Path) -> Path:
    """A home whose lock is of the machines' images: those that were copied there."""
    folder = home.with_name(f"{home.name}-vm")
    folder.mkdir(exist_ok=True)
    shutil.copy(images / "images.lock.json", folder)
    return folder
