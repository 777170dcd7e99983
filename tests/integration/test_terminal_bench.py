"""Terminal-Bench in containers: the stub's path always, real trials of Harbor where Harbor and Compose v2 are."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.suites.terminal_bench.program import find_harbor

pytestmark = pytest.mark.docker
LABEL = "trace-bench.service.owner"
LOCAL = REPOSITORY / "configs" / "terminal_bench_local.yaml"


def _lacking() -> str:
    """What real trials need and this machine lacks."""
    if find_harbor(os.environ) is None:
        return "no Harbor: run trace-bench harbor install, or name it in HARBOR_BIN"
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        return "no Docker Compose v2: run scripts/compose-v2 FOLDER, and set DOCKER_CONFIG=FOLDER"
    image = subprocess.run(["docker", "image", "inspect", "trace-bench/terminal:local"], capture_output=True)
    return "no image for the tasks: run scripts/terminal-bench-image" if image.returncode else ""


needs_harbor = pytest.mark.skipif(bool(LACKING := _lacking()), reason=LACKING or "all is here")


def rows(runs: Path) -> list[dict[str, str]]:
    (table,) = runs.glob("*/results.csv")
    return list(csv.DictReader(table.read_text().splitlines()))


def records(runs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in runs.glob("*/jobs/*/services.jsonl") for line in path.read_text().splitlines()]


def left_behind() -> list[str]:
    found: list[str] = []
    for kind in ("ps -a", "network ls", "volume ls"):
        command = ["docker", *kind.split(), "-q", "--filter", f"label={LABEL}"]
        found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return found


def test_without_a_model_no_trial_is_run_and_a_replay_needs_no_harbor(images: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    config = REPOSITORY / "configs" / "terminal_bench_demo.yaml"
    done = cli("run", str(config), "--runs-dir", str(first), home=images, timeout=300)
    assert done.returncode == 0, done.stderr
    (row,) = rows(first)
    assert (row["status"], row["integrity"], float(row["score_best"])) == ("ok", "protected", 0.0)
    assert records(first)[0]["answer"]["notes"] == ["No trial was run: the stub model cannot drive an agent."]
    (run,) = first.iterdir()
    again = cli("run", "--replay", str(run), "--replay-services", "--runs-dir", str(tmp_path / "again"), home=images,
                timeout=300)  # fmt: skip
    assert again.returncode == 0 and "1 of 1 jobs came out equal" in again.stderr, again.stderr


@pytest.mark.slow
@needs_harbor
def test_a_search_finds_the_prompt_that_solves_the_tasks_and_one_of_them_again(images: Path, tmp_path: Path) -> None:
    tables = []
    for name, chosen in (("first", ()), ("second", ("-t", "terminal_bench:count_log_lines"))):
        done = cli("run", str(LOCAL), *chosen, "--runs-dir", str(tmp_path / name), home=images, timeout=1500)
        assert done.returncode == 0, done.stderr
        tables.append({row["task_id"]: (row["score_initial"], row["score_best"]) for row in rows(tmp_path / name)})
    assert [len(table) for table in tables] == [3, 1] and tables[1].items() <= tables[0].items()
    assert all((float(low), float(high)) == (0.0, 1.0) for low, high in tables[0].values()), tables
    assert left_behind() == []
    (run,) = (tmp_path / "first").iterdir()
    again = cli("run", "--replay", str(run), "--replay-services", "--runs-dir", str(tmp_path / "again"), home=images,
                timeout=600, HARBOR_BIN="/nonexistent/harbor")  # fmt: skip
    assert again.returncode == 0 and "3 of 3 jobs came out equal" in again.stderr, again.stderr
    trial = next(line for line in records(tmp_path / "first") if line["answer"]["rewards"]["reward"] == 1.0)
    folder = next((tmp_path / "first").glob(f"*/jobs/*/{trial['folder']}"))
    assert json.loads((folder / "trajectory.json").read_text())["schema_version"].startswith("ATIF-")


@pytest.mark.slow
@needs_harbor
def test_what_a_killed_controller_leaves_is_removed_by_the_same_command(images: Path, tmp_path: Path) -> None:
    config = tmp_path / "one.yaml"
    script = REPOSITORY / "configs" / "scripted" / "terminal.yaml"
    config.write_text(
        f'mode: stub\nrun_id: killed\nllm: {{model: "scripted:{script}"}}\n'
        "tasks: [terminal_bench:count_log_lines]\ntrainers: [NoOp]\n"
    )
    command = [sys.executable, "-m", "trace_bench", "run", str(config), "--runs-dir", str(tmp_path / "runs")]
    environment = {**os.environ, "TRACE_BENCH_HOME": str(images)}
    controller = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not left_behind() and time.monotonic() < deadline and controller.poll() is None:
        time.sleep(0.2)
    assert left_behind(), "no trial has begun"
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    done = cli("run", str(config), "--runs-dir", str(tmp_path / "runs"), home=images, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in rows(tmp_path / "runs")] == ["ok"] and left_behind() == []
