"""The scripts that get a newcomer going say in one sentence what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.images.conftest import TOP


def _run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [script, *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout's scripts in a folder of their own."""
    shutil.copytree(TOP / "scripts", tmp_path / "scripts")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "smoke.yaml").write_text("{}\n")
    return tmp_path


@pytest.mark.docker
def test_ensure_engine_leaves_a_running_engine_alone() -> None:
    done = _run(TOP / "scripts" / "ensure-engine")
    assert done.returncode == 0
    assert done.stderr.startswith("ensure-engine: engine ") and done.stderr.endswith(" answers.\n")


def test_ensure_engine_starts_nothing_where_an_engine_is_named() -> None:
    done = _run(TOP / "scripts" / "ensure-engine", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert done.returncode == 3
    assert "no engine answers at DOCKER_HOST=unix:///nonexistent/docker.sock" in done.stderr
    assert "backend local" in done.stderr and done.stderr.count("\n") == 1


def test_quickstart_without_python_says_what_to_install(bare: Path) -> None:
    tools = bare / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = _run(bare / "scripts" / "quickstart", PATH=str(tools))
    assert done.returncode == 3
    assert "no CPython 3.11 to 3.13 with venv is on PATH" in done.stderr
    assert not (bare / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--nope"], "unknown argument '--nope'"), (["--config", "none.yaml"], "there is no config none.yaml")],
)
def test_quickstart_refuses_what_it_does_not_know(bare: Path, arguments: list[str], said: str) -> None:
    done = _run(bare / "scripts" / "quickstart", *arguments)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["second-engine", "loopback-registry"])
def test_helpers_show_their_usage(name: str) -> None:
    done = _run(TOP / "scripts" / name)
    assert done.returncode == 2 and done.stderr.startswith("usage: ")


@pytest.mark.docker
@pytest.mark.slow
def test_quickstart_takes_a_bare_checkout_to_a_leaderboard(tmp_path: Path) -> None:
    """Two runs: the second finds everything there."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(TOP), str(checkout)], check=True)
    environment = {**os.environ, "TRACE_BENCH_HOME": str(tmp_path / "home")}
    for _ in range(2):
        done = subprocess.run(
            [checkout / "scripts" / "quickstart"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "llm4ad:circle_packing" in done.stdout and "2 of 2 jobs ok" in done.stdout
    assert len(list((checkout / "runs").iterdir())) == 2
