"""A machine that lacks something: one sentence, an exit code, and nothing is created. What a config or an argument can
have wrong is in `test_thirty_mistakes`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import NO_ENGINE, assert_refused, refused
from tests.integration.cli import cli, result_of, write_config

TASK = "internal:numeric_param"


def test_without_an_engine_nothing_falls_back(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), code=3, home=tmp_path / "home", DOCKER_HOST=NO_ENGINE)
    assert f"engine at {NO_ENGINE} " in said and "--backend local" in said and "unprotected" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.docker
def test_no_build_builds_nothing(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), "--no-build", code=3, home=tmp_path / "home")
    assert said == "error: the image of family core was not built here; run `trace-bench images build core`"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.skipif(os.getuid() == 0 and not shutil.which("mount"), reason="root writes anywhere")
def test_a_runs_folder_without_rights_is_refused_before_anything_is_done(small: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), "--backend", "local", "--runs-dir", str(small / "runs"), code=3)
    assert said == f"error: {small} cannot be written; name another folder with --runs-dir"


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_keeps_what_was_finished(small: Path, tmp_path: Path) -> None:
    search = {"id": "PrioritySearch", "params": {"num_steps": 2}}
    path = write_config(tmp_path, tasks=[TASK], trainers=[search], seeds=list(range(12)))
    run = ("run", "--config", str(path), "--backend", "local", "--run-id", "full", "--runs-dir", str(small), "-q")
    done = cli(*run, timeout=120)
    assert_refused(done, 3)
    # Which of a job's files it is that has no room is a matter of a page; both sentences say how to go on.
    says_how = ("the same command continues the run", "run again to resume")
    assert "o space left" in done.stderr and any(how in done.stderr for how in says_how)
    finished = len(list(small.glob("full/jobs/*/results.json")))
    assert 0 < finished < 12

    subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
    done = cli(*run, "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    starts = [json.loads(line) for line in (small / "full" / "events.jsonl").read_text().splitlines()]
    assert len(result_of(done.stdout)["jobs"]) == 12
    assert len([e for e in starts if e["event"] == "job.start"]) < 24, "finished jobs ran again"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
