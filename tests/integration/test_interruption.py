"""Interrupted at any instant, nothing is lost, nothing runs twice, nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli import TASKS, cli, result_of, start, write_config
from tests.sandbox.lab import SLOWNESS

pytestmark = pytest.mark.docker
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 6, "num_candidates": 2, "num_proposals": 2}}
SHORT = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}


def slow_config(folder: Path, seconds: float, run_id: str, **config: Any) -> Path:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": seconds}}
    return write_config(folder, tasks=[task], run_id=run_id, **{"trainers": [SEARCH], "retries": 0, **config})


@pytest.fixture
def run_id() -> Iterator[str]:
    """Of the form that runs have, so that what is left behind is found."""
    yield f"20000101-{time.strftime('%H%M%S')}-{time.time_ns() & 0xFFFFFFFF:08x}"


def wait_for(condition: Any, timeout: float = 60) -> Any:
    deadline = time.monotonic() + timeout * SLOWNESS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def calls(folder: Path, run_id: str) -> list[dict[str, Any]]:
    found = list((folder / "runs" / run_id / "jobs").glob("*/llm.jsonl"))
    lines = found[0].read_text().splitlines() if found else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def rows(folder: Path, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in (folder / "runs" / run_id / "jobs").glob("*/results.json")]


def containers(run_id: str, engine: str | None = None) -> list[dict[str, Any]]:
    import docker

    client = docker.APIClient(engine) if engine else docker.from_env().api
    try:
        return list(client.containers(all=True, filters={"label": f"trace-bench.run={run_id}"}))
    finally:
        client.close()


def test_ctrl_c_ends_the_job_in_order_and_records_it(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 0.3, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, run_id)) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    (row,) = rows(tmp_path, run_id)
    assert row["stop_reason"] == "interrupted" and row["score_best"] is not None
    assert containers(run_id) == []


def test_a_second_ctrl_c_kills(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 600.0, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: any(c["State"] == "running" for c in containers(run_id)))
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - started < 20
    assert containers(run_id) == []


def killed_in_the_middle(folder: Path, home: Path, run_id: str, **changes: Any) -> tuple[Path, int]:
    """A controller that dies with a job running; returns the config and how many calls were paid."""
    config = slow_config(folder, 0.4, run_id, **changes)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=home)
    wait_for(lambda: len(calls(folder, run_id)) >= 3)
    process.kill()
    process.communicate(timeout=30)
    paid = len(calls(folder, run_id))
    assert [c["State"] for c in containers(run_id)] == ["running"]
    return config, paid


@contextmanager
def undisturbed(folder: Path, home: Path, **changes: Any) -> Iterator[Callable[[], dict[str, Any]]]:
    """The same job without an interruption, beside the other: gives the function that waits for its row."""
    folder.mkdir()
    config = slow_config(folder, 0.4, "twin", **changes)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=home)

    def row() -> dict[str, Any]:
        _, err = process.communicate(timeout=120 * SLOWNESS)
        assert process.returncode == 0, err
        (found,) = rows(folder, "twin")
        return found

    try:
        yield row
    finally:
        process.kill()
        process.communicate()


def test_a_new_controller_adopts_the_running_job_and_pays_no_call_twice(
    images: Path, tmp_path: Path, run_id: str
) -> None:
    with undisturbed(tmp_path / "twin", images, trainers=[SHORT]) as twin:
        config, paid = killed_in_the_middle(tmp_path, images, run_id, trainers=[SHORT])
        sandbox = containers(run_id)[0]["Id"]
        done = cli("run", "--config", str(config), "--root", str(TASKS), "--json", home=images)
        assert done.returncode == 0, done.stderr
        row = result_of(done.stdout)["jobs"][0]
        meta = json.loads((tmp_path / "runs" / run_id / "jobs" / row["job_id"] / "job_meta.json").read_text())
        assert meta["attempts"][-1]["sandbox_id"] == sandbox
        every = calls(tmp_path, run_id)
        asked = [c["request_id"] for c in every if c["reused_from"] is None]
        assert len(every) > paid and len(asked) == len(set(asked))
        expected = twin()
    assert (row["score_best"], row["llm_calls"]) == (expected["score_best"], expected["llm_calls"])
    assert containers(run_id) == []


@pytest.mark.slow
def test_a_job_that_ended_while_nobody_listened_is_collected(images: Path, tmp_path: Path, run_id: str) -> None:
    """Training needs its gateway, so a job without calls is the one that can go on alone up to its scoring."""
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 2.0}}
    config = write_config(tmp_path, tasks=[task], trainers=["NoOp"], run_id=run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: any(c["State"] == "running" for c in containers(run_id)))
    time.sleep(0.5)
    process.kill()
    process.communicate(timeout=30)
    time.sleep(4)
    done = cli("run", "--config", str(config), "--root", str(TASKS), "--json", home=images)
    assert done.returncode == 0, done.stderr
    row = result_of(done.stdout)["jobs"][0]
    assert row["score_best"] == -3.0
    meta = json.loads((tmp_path / "runs" / run_id / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert {c["name"] for c in meta["controls"] if c["in_force"]} >= {"network", "capabilities"}


@pytest.mark.slow
def test_a_sandbox_that_died_with_its_controller_is_collected(images: Path, tmp_path: Path, run_id: str) -> None:
    config, _ = killed_in_the_middle(tmp_path, images, run_id)
    subprocess.run(["docker", "kill", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    done = cli("run", "--config", str(config), "--root", str(TASKS), "--json", home=images)
    assert done.returncode == 1, done.stderr
    row = result_of(done.stdout)["jobs"][0]
    assert (row["failure_boundary"], row["failure_kind"]) == ("sandbox", "sandbox_died"), row["feedback"]
    folder = tmp_path / "runs" / run_id
    assert len((folder / row["state_history_path"]).read_text().splitlines()) >= 2
    meta = json.loads((folder / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert {c["name"] for c in meta["controls"] if c["in_force"]} >= {"network", "capabilities"}
    assert containers(run_id) == []


def test_clean_removes_what_a_dead_controller_left(images: Path, tmp_path: Path, run_id: str) -> None:
    killed_in_the_middle(tmp_path, images, run_id)
    done = cli("clean", "--run", run_id, home=images)
    assert done.returncode == 0 and "removed" in done.stdout
    assert containers(run_id) == []


@pytest.mark.slow
def test_clean_leaves_a_running_controllers_sandbox_alone(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 0.4, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    try:
        wait_for(lambda: len(calls(tmp_path, run_id)) >= 1)
        done = cli("clean", "--run", run_id, home=images)
        assert "left alone" in done.stderr and "removed" not in done.stdout
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_container_removed_under_us_is_a_sandbox_failure(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 0.4, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, run_id)) >= 2)
    subprocess.run(["docker", "rm", "-f", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err
    (row,) = rows(tmp_path, run_id)
    assert row["failure_boundary"] == "sandbox" and row["status"] == "failed"
    assert containers(run_id) == []


@pytest.mark.slow
def test_an_attempt_that_the_sandbox_failed_is_kept_and_made_again(images: Path, tmp_path: Path, run_id: str) -> None:
    config = slow_config(tmp_path, 0.4, run_id, retries=1)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, run_id)) >= 2)
    subprocess.run(["docker", "rm", "-f", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    (retry,) = [line for line in err.splitlines() if line.startswith("retry  ")]
    assert "attempt 2 after sandbox: " in retry
    (row,) = rows(tmp_path, run_id)
    meta = json.loads((tmp_path / "runs" / run_id / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert [(a["number"], a["status"]) for a in meta["attempts"]] == [(1, "failed"), (2, "ok")]
    assert meta["attempts"][0]["failure"]["boundary"] == "sandbox"
    # The second attempt asks the same questions; what was answered is not paid again.
    assert any(c["reused_from"] is not None for c in calls(tmp_path, run_id))
    assert containers(run_id) == []


@pytest.mark.slow
def test_a_container_killed_in_the_middle_leaves_everything_up_to_then(
    images: Path, tmp_path: Path, run_id: str
) -> None:
    config = slow_config(tmp_path, 0.3, run_id)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, run_id)) >= 4)
    subprocess.run(["docker", "kill", containers(run_id)[0]["Id"]], check=True, capture_output=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err
    (row,) = rows(tmp_path, run_id)
    assert (row["status"], row["failure_boundary"], row["failure_kind"]) == ("failed", "sandbox", "sandbox_died")
    folder = tmp_path / "runs" / run_id
    lines = [json.loads(x) for x in (folder / row["state_history_path"]).read_text().splitlines()]
    assert len(lines) >= 3 and all("score" in line for line in lines)
    best = max(lines, key=lambda line: line["score"])
    assert yaml.safe_load((folder / row["best_state_path"]).read_text()) == best["parameters"]
    assert yaml.safe_load((folder / row["initial_state_path"]).read_text()) == {"x": 0.0}
    events = [
        json.loads(x)["event"] for x in (folder / "jobs" / row["job_id"] / "events.jsonl").read_text().splitlines()
    ]
    assert events[0] == "job.start" and "build.end" in events and "train.end" not in events
    assert row["score_best"] is None, "nothing official was scored"
    assert containers(run_id) == []


@pytest.mark.slow
def test_a_run_that_is_repeated_reuses_what_is_done(images: Path, tmp_path: Path, run_id: str) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], run_id=run_id)
    first = cli("run", "--config", str(config), home=images)
    again = cli("run", "--config", str(config), home=images)
    assert first.returncode == again.returncode == 0
    assert "reused" in again.stderr and "reused" not in first.stderr
    forced = cli("run", "--config", str(config), "--force", home=images)
    assert "reused" not in forced.stderr
    lines = (tmp_path / "runs" / run_id / "results.csv").read_text().splitlines()
    assert len(lines) == 2
