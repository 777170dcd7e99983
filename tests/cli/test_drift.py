"""A locked image whose recipe has changed: refused, unless the user accepts it and the run says so."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import assert_refused
from tests.integration.cli import REPOSITORY, Done, cli, result_of, write_config

pytestmark = pytest.mark.docker


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package and its data, whose worker is like no other's."""
    top = tmp_path / "checkout"
    residue = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("trace_bench", "images", "benchmarks", "configs", "schemas"):
        shutil.copytree(REPOSITORY / name, top / name, ignore=residue)
    change_worker(top)
    yield top
    lock = tmp_path / "home" / "images.lock.json"
    for pin in json.loads(lock.read_text())["images"].values():
        subprocess.run(["docker", "rmi", pin["ref"]], check=True, capture_output=True)


def change_worker(top: Path) -> None:
    with (top / "trace_bench" / "worker" / "__init__.py").open("a") as file:
        file.write(f"# {uuid.uuid4()}\n")


@pytest.mark.slow
def test_drift_is_refused_or_accepted_and_recorded(checkout: Path, tmp_path: Path) -> None:
    def command(*arguments: str) -> Done:
        return cli(*arguments, home=tmp_path / "home", cwd=tmp_path, timeout=600, PYTHONPATH=str(checkout))

    config = str(write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"]))
    built = command("images", "build", "core")
    assert built.returncode == 0, built.stderr
    ref = built.stdout.split()[-1]

    change_worker(checkout)
    refused = command("run", "--config", config)
    assert_refused(refused, 3)
    assert refused.stderr == (
        f"error: the image of family core is locked as {ref}, but its worker sources changed since; run "
        "`trace-bench images build core` to accept the change, or pass --accept-drift to run the locked image\n"
    )
    assert not (tmp_path / "runs").exists()
    assert_refused(command("images", "verify", "core"), 3)
    assert "core drifted" in command("doctor").stdout
    assert "drift in worker" in command("images", "list").stdout

    accepted = command("run", "--config", config, "--accept-drift", "--json")
    assert accepted.returncode == 0, accepted.stderr
    run = Path(result_of(accepted.stdout)["folder"])
    manifest = json.loads((run / "meta" / "manifest.json").read_text())
    assert manifest["warnings"] == ["the image of core is used although its worker changed since it was locked"]
    assert json.loads((run / "meta" / "lock.json").read_text())["images"]["core"]["ref"] == ref
