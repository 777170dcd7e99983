"""A run that is interrupted, continued, forced, or started twice; on the local backend, which needs no engine."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import make_run
from tests.cli.conftest import refused
from tests.integration.cli import TASKS, cli, start, write_config
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout

RUN_ID = "mine"


def _arguments(folder: Path) -> tuple[str, ...]:
    """A run of one job, whose evaluations take until `_released`."""
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 60.0, "until": str(folder / "released")}}
    path = write_config(folder, tasks=[task], trainers=["NoOp"], run_id=RUN_ID)
    return ("run", "--config", str(path), "--backend", "local", "--root", str(TASKS))


def _released(folder: Path) -> Path:
    """`folder`, whose evaluations are over at once from now on."""
    (folder / "released").touch()
    return folder


def _begun(folder: Path) -> subprocess.Popen[str]:
    """A controller whose job is in the middle of its training."""
    process = start(*_arguments(folder), home=folder / "home")
    deadline = time.monotonic() + 30
    while not (folder / "released.begun").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    return process


def _row(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "runs" / RUN_ID / "jobs").glob("*/results.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_second_controller_of_a_run_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    first = _begun(tmp_path)
    said = refused(*_arguments(tmp_path))
    assert "another controller is running this run" in said and "--run-id" in said
    _released(tmp_path)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert _row(tmp_path)["score_best"] == -3.0
    assert len(list((tmp_path / "runs" / RUN_ID / "jobs").glob("*/attempts/*"))) == 1


def test_an_interrupted_job_runs_again_when_the_run_is_continued(tmp_path: Path) -> None:
    process = _begun(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("stopping"):
        assert process.poll() is None
    _released(tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "0 of 1 jobs have finished" in err and f"--run-id {RUN_ID}" in err, err
    assert _row(tmp_path)["stop_reason"] == "interrupted"
    done = cli(*_arguments(tmp_path))
    assert done.returncode == 0 and "reused" not in done.stderr, done.stderr
    assert _row(tmp_path)["stop_reason"] == "completed"


def test_a_dry_run_of_a_run_that_has_a_controller_is_refused_as_the_run_is(tmp_path: Path) -> None:
    arguments = _arguments(_released(tmp_path))
    with lock_run(RunLayout(tmp_path / "runs" / RUN_ID)):
        said = refused(*arguments, "--dry-run")
        assert "another controller is running this run" in said and said == refused(*arguments)


@pytest.mark.slow
def test_a_run_whose_only_fault_is_a_cancelled_job_ends_with_1_and_says_how_to_continue(tmp_path: Path) -> None:
    process = _begun(tmp_path)
    (job,) = (tmp_path / "runs" / RUN_ID / "jobs").iterdir()
    assert cli("cancel", RUN_ID, job.name, "--no-wait", cwd=tmp_path, timeout=60).returncode == 0
    time.sleep(2.0)  # the controller looks for it each half second
    _released(tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "0 of 1 jobs ok, 1 interrupted" in out, (out, err)
    assert err.splitlines()[-1] == (
        f"1 of 1 jobs did not finish; the same command continues the run, or --run-id {RUN_ID}"
    )
    assert json.loads((tmp_path / "runs" / RUN_ID / "summary.json").read_text())["counts"]["interrupted"] == 1
    done = cli(*_arguments(tmp_path))
    assert done.returncode == 0 and "did not finish" not in done.stderr, done.stderr


def test_force_runs_a_finished_run_again_and_it_can_be_continued_without(tmp_path: Path) -> None:
    arguments = _arguments(_released(tmp_path))
    for extra, reused in (((), False), (("--force",), False), ((), True)):
        done = cli(*arguments, *extra)
        assert done.returncode == 0, done.stderr
        assert ("reused" in done.stderr) is reused


def test_progress_counts_the_jobs(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], seeds=[1, 2], run_id=RUN_ID)
    err = cli("run", "--config", str(path), "--backend", "local").stderr
    assert f"run    {RUN_ID}  2 jobs" in err and "[1/2]" in err and "[2/2]" in err


def test_the_record_says_what_the_variant_gave_and_which_packages_planned_it(tmp_path: Path) -> None:
    search = {"id": "PrioritySearch", "params_variants": [{"num_steps": 1}]}
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=[search], run_id=RUN_ID)
    cli("run", "--config", str(path), "--backend", "local")
    meta = tmp_path / "runs" / RUN_ID / "meta"
    assert json.loads((meta / "manifest.json").read_text())["jobs"][0]["raw_params"] == {"num_steps": 1}
    assert "trace-bench" in json.loads((meta / "lock.json").read_text())["packages"]


def test_a_terminal_without_the_letters_shows_escapes(tmp_path: Path) -> None:
    make_run(tmp_path, name="größe")
    done = cli("ls", "--runs-dir", str(tmp_path), PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "gr\\xf6\\xdfe" in done.stdout, (done.stdout, done.stderr)


@pytest.mark.parametrize("extra", [{"DOCKER_HOST": "foo://x"}, {"DOCKER_HOST": "tcp://x:1", "DOCKER_TLS_VERIFY": "1"}])
def test_an_address_that_is_none_is_named(tmp_path: Path, extra: dict[str, str]) -> None:
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"])
    said = refused("run", "--config", str(path), "--backend", "docker", code=3, **extra)
    assert extra["DOCKER_HOST"] in said and "set DOCKER_HOST" in said
