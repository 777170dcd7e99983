"""``ps``, ``cancel``, ``logs`` and ``clean`` beside real sandboxes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli import TASKS, cli, start
from tests.integration.test_interruption import (
    calls,
    containers,
    killed_in_the_middle,
    rows,
    run_id,
    slow_config,
    wait_for,
)

pytestmark = pytest.mark.docker
__all__ = ["run_id"]


def sandboxes(home: Path, run_id: str) -> list[dict[str, str]]:
    return [row for row in json.loads(cli("ps", "--json", home=home).stdout) if row["run_id"] == run_id]


def test_a_run_is_watched_and_cancelled_from_outside(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 0.3, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    try:
        wait_for(lambda: len(calls(tmp_path, run_id)) >= 2)
        (found,) = sandboxes(images, run_id)
        assert (found["state"], found["controller"]) == ("running", "alive")
        (job,) = json.loads(cli("show", run_id, "--json", cwd=tmp_path).stdout)["jobs"]
        assert (job["status"], job["job_id"]) == ("running", found["job_id"])
        follower = start("logs", run_id, "-f", home=images, cwd=tmp_path)
        done = cli("cancel", run_id, cwd=tmp_path, home=images, timeout=60)
        assert (done.returncode, done.stdout) == (0, f"cancelled run {run_id}\n"), done.stderr
        assert containers(run_id) == []
        process.communicate(timeout=30)
        assert process.returncode == 130
        out, _ = follower.communicate(timeout=30)
        assert follower.returncode == 0 and "run.end" in out
        (row,) = rows(tmp_path, run_id)
        assert row["stop_reason"] == "interrupted" and row["score_best"] is not None
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_kill_of_one_job_leaves_the_others(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 600.0, run_id, seeds=[1, 2], max_workers=2)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    try:
        wait_for(lambda: [c["State"] for c in containers(run_id)] == ["running", "running"])
        first, second = (row["job_id"] for row in sandboxes(images, run_id))
        done = cli("cancel", run_id, first, "--kill", cwd=tmp_path, home=images, timeout=60)
        assert done.returncode == 0, done.stderr
        assert [row["job_id"] for row in sandboxes(images, run_id)] == [second]
        assert process.poll() is None
        assert cli("cancel", run_id, "--kill", cwd=tmp_path, home=images, timeout=60).returncode == 0
        process.communicate(timeout=30)
        assert process.returncode == 130 and containers(run_id) == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_cancel_removes_what_a_dead_controller_left_and_the_run_can_be_continued(
    images: Path, tmp_path: Path, run_id: str
) -> None:
    config, _ = killed_in_the_middle(tmp_path, images, run_id)
    (found,) = sandboxes(images, run_id)
    assert (found["state"], found["controller"]) == ("running", "dead")
    assert "interrupted" in cli("show", run_id, cwd=tmp_path).stdout
    kept = cli("clean", "--expired", "--run", run_id, cwd=tmp_path, home=images)
    assert kept.returncode == 0 and "has not ended" in kept.stderr and len(containers(run_id)) == 1
    done = cli("cancel", run_id, cwd=tmp_path, home=images)
    assert done.returncode == 0 and "is lost" in done.stderr and containers(run_id) == []
    done = cli("run", "--config", str(config), "--root", str(TASKS), home=images)
    assert done.returncode == 0, done.stderr
    assert "finished" in cli("ls", cwd=tmp_path).stdout


def test_clean_expired_removes_what_has_ended_and_a_volume_without_its_container(
    images: Path, tmp_path: Path, run_id: str
) -> None:
    killed_in_the_middle(tmp_path, images, run_id)
    subprocess.run(["docker", "kill", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    assert [row["state"] for row in sandboxes(images, run_id)] == ["exited"]
    subprocess.run(["docker", "rm", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    assert [row["state"] for row in sandboxes(images, run_id)] == ["removed"]
    done = cli("clean", "--expired", "--run", run_id, cwd=tmp_path, home=images)
    assert done.returncode == 0 and done.stdout.startswith("removed "), done.stderr
    assert sandboxes(images, run_id) == []
