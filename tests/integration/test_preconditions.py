"""A run with a task whose image cannot be built here: the others run, in containers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.integration.cli import cli, write_config
from trace_bench.images.lock import lock_path

pytestmark = pytest.mark.docker

REASON = "the image of family lean needs a toolchain of Lean 4"


@pytest.fixture
def without_lean(images: Path, tmp_path: Path) -> Path:
    """A home with the images of the tests, but for that of Lean and its toolchain."""
    home = tmp_path / "home"
    home.mkdir()
    lock = json.loads(lock_path(images).read_bytes())
    lock["images"].pop("lean", None)
    lock_path(home).write_text(json.dumps(lock))
    return home


def test_a_task_without_its_image_does_not_end_the_run(without_lean: Path, tmp_path: Path) -> None:
    config = str(
        write_config(tmp_path, tasks=["internal:numeric_param", "veribench:smoke_placeholder"], trainers=["NoOp"])
    )
    for refused in (
        cli("run", config, "--strict", home=without_lean),
        cli("validate", config, "--strict", home=without_lean),
    ):
        assert refused.returncode == 3 and REASON in refused.stderr
        assert not (tmp_path / "runs").exists()

    foreseen = cli("run", config, "--dry-run", home=without_lean)
    assert foreseen.returncode == 0 and "1 to run, 1 to skip" in foreseen.stdout and REASON in foreseen.stdout
    done = cli("run", config, home=without_lean)
    assert done.returncode == 1, done.stderr
    assert "1 of 2 jobs ok, 1 skipped" in done.stdout and f"cannot run here: {REASON}" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    first, second = csv.DictReader((run / "results.csv").read_text().splitlines())
    assert (first["task_id"], first["status"], first["integrity"]) == ("internal:numeric_param", "ok", "protected")
    assert (second["task_id"], second["status"]) == ("veribench:gcd", "skipped") and REASON in second["feedback"]
    report = tmp_path / "report.md"
    for command in (["show"], ["results"], ["report", "--output", str(report)], ["audit"]):
        shown = cli(*command, str(run), home=without_lean)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        said = report.read_text() if report.exists() else shown.stdout
        assert command == ["audit"] or REASON in said, command

    again = cli("run", config, home=without_lean)
    assert again.returncode == 1 and "reused" in again.stderr and list((tmp_path / "runs").iterdir()) == [run]
    checked = cli("validate", config, home=without_lean)
    assert checked.returncode == 1 and "OK task internal:numeric_param" in checked.stdout
    assert "FAIL task veribench:gcd: config: cannot_run_here: " in checked.stdout and REASON in checked.stdout
