"""A run in real containers is made again: elsewhere, with other workers, on another backend, from a fresh checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.artifacts.layout import RunLayout

pytestmark = pytest.mark.docker


def reproduced(run: Path, folder: Path, home: Path, *arguments: str, **env: str) -> dict[str, Any]:
    done = cli("reproduce", str(run), "--json", *arguments, home=home, cwd=folder, **env)
    assert done.stdout.startswith("{"), (done.returncode, done.stderr)
    return {**json.loads(done.stdout), "code": done.returncode}


def jobs_of(run: RunLayout) -> int:
    return len(list(run.job_dirs()))


def other(report: dict[str, Any]) -> set[str]:
    return {pin["what"] for pin in report["pins"] if not pin["same"]}


@pytest.mark.slow
def test_containers_score_equal_again_with_other_workers(
    recorded_in_containers: RunLayout, images: Path, tmp_path: Path
) -> None:
    report = reproduced(recorded_in_containers.root, tmp_path, images, "--workers", "4", "--where", "seed=1")
    count = jobs_of(recorded_in_containers) // 2
    assert (report["code"], report["counts"]["equal"]) == (0, count) and other(report) == set()
    rows = [json.loads(path.read_text()) for path in tmp_path.glob("reproductions/*/*/jobs/*/results.json")]
    assert len(rows) == count and {row["integrity"] for row in rows} == {"protected"}


@pytest.mark.slow
def test_saved_states_are_scored_in_containers(recorded_in_containers: RunLayout, images: Path, tmp_path: Path) -> None:
    report = reproduced(recorded_in_containers.root, tmp_path, images, "--score-only", "--where", "seed=2")
    assert (report["code"], report["counts"]["equal"]) == (0, jobs_of(recorded_in_containers) // 2)
    metrics = {score["metric"] for job in report["jobs"] for score in job["scores"]}
    assert {"score", "normalised"} <= metrics


@pytest.mark.slow
def test_a_run_in_containers_is_made_again_without_an_engine(
    recorded_in_containers: RunLayout, images: Path, tmp_path: Path
) -> None:
    part = ("--where", "task=internal:*,seed=1", "--backend", "local")
    report = reproduced(recorded_in_containers.root, tmp_path, images, *part, DOCKER_HOST="unix:///nonexistent")
    assert report["code"] == 0 and {job["verdict"] for job in report["jobs"]} <= {"equal", "within"}
    assert {"backend", "image"} <= other(report)


@pytest.mark.slow
def test_a_fresh_checkout_in_a_fresh_folder_comes_to_equal_scores(
    recorded_in_containers: RunLayout, images: Path, tmp_path: Path
) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.decode().split("\0")):
        if (source := REPOSITORY / name).is_file():
            target = tmp_path / "clone" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    archive = tmp_path / "run.tar.gz"
    assert cli("export", str(recorded_in_containers.root), "-o", str(archive), home=images).returncode == 0
    (place := tmp_path / "elsewhere").mkdir()
    path = os.pathsep.join(filter(None, (str(tmp_path / "clone"), os.environ.get("PYTHONPATH"))))
    report = reproduced(archive, place, images, "--workers", "3", PYTHONPATH=path)
    count = jobs_of(recorded_in_containers)
    assert (report["code"], report["counts"]["equal"]) == (0, count) and other(report) == set()
    again = reproduced(archive, place, images, "--workers", "3", "--score-only", PYTHONPATH=path)
    assert (again["code"], again["counts"]["equal"]) == (0, count)
