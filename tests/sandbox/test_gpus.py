"""Which GPUs an engine's host has, as far as anybody can tell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_bench.sandbox.engine import Engine
from trace_bench.sandbox.gpus import leasable


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands in for nvidia-smi, the only command there is."""
    command = tmp_path / "nvidia-smi"
    command.write_text('#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: A (UUID: GPU-a)" && echo "GPU 1: B (UUID: GPU-b)"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return command


def newer() -> list[str]:
    """What a newer engine says."""
    return ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]


def older() -> list[str]:
    return []


def test_what_the_config_says_counts(driver: Path) -> None:
    assert leasable("none", newer, here=True) == ()
    assert leasable(0, newer, here=True) == ()
    assert leasable(2, older, here=False) == ("0", "1")
    assert leasable(("/dev/dri/card0",), newer, here=True) == ("/dev/dri/card0",)


def test_the_driver_of_this_machine_is_asked_for_its_engine_only(driver: Path) -> None:
    assert leasable("auto", older, here=True) == ("0", "1")
    assert leasable("auto", older, here=False) is None


@pytest.mark.parametrize("program", ["exit 9", "echo No devices were found", "exec sleep 0 && nonsense"])
def test_a_driver_that_does_not_tell_leaves_it_to_the_engine(driver: Path, program: str) -> None:
    driver.write_text(f"#!/bin/sh\n{program}\n")
    assert leasable("auto", older, here=True) is None
    driver.unlink()
    assert leasable("auto", older, here=True) is None


@pytest.mark.parametrize(("version", "asked"), [("1.41", []), ("1.49", []), ("1.50", ["1.50"]), ("1.54", ["1.50"])])
def test_engines_are_asked_for_devices_in_the_words_that_they_know(
    version: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "else", "ID": "nvidia.com/gpu=7"}]
    connected: list[str] = []

    def connect(version: str, *_: Any) -> Any:
        connected.append(version)
        return SimpleNamespace(info=lambda: {"DiscoveredDevices": found})

    engine = Engine("unix:///nowhere")
    engine._version = {"ApiVersion": version}
    monkeypatch.setattr(engine, "_connect", connect)
    assert engine.discovered_devices() == (["nvidia.com/gpu=0"] if asked else [])
    assert connected == asked
