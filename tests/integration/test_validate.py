"""``validate`` in real sandboxes: what ships builds, what is broken is told, and nothing is left."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli, start, write_config
from tests.integration.test_llm4ad import KINDS
from tests.suites.veribench.support import toolchain

pytestmark = pytest.mark.docker
TOML = """
title = "A task of this test"
statement = "Do as the code says."
interaction = "value"
suite = "internal"
[score]
direction = "maximize"
failure = -1.0
"""


def write_task(folder: Path, name: str, build: str) -> Path:
    task = folder / "tasks" / name
    task.mkdir(parents=True)
    (task / "task.toml").write_text(TOML)
    (task / "problem.py").write_text(f"import os, time\n\n{build}\n")
    return folder / "tasks"


def containers(name: str) -> list[dict[str, Any]]:
    """Those that build the task `name`, which has its job's id in their labels."""
    import docker

    client = docker.from_env().api
    try:
        return list(client.containers(all=True, filters={"label": f"trace-bench.job={name}"}))
    finally:
        client.close()


def wait_for(condition: Callable[[], Any], timeout: float = 90) -> Any:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


SOME = ["internal:non_trainable", "internal:numeric_param", *KINDS[2:], "llm4ad:machine_learning/moon_lander"]
"""Of those that `test_jobs` does not build: one of each kind, and one for each package in the image of llm4ad."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_that_ships_builds_in_its_image(
    every: bool, request: pytest.FixtureRequest, images: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if every:
        request.getfixturevalue("kernels")
        archive = toolchain(tmp_path_factory.mktemp("toolchain") / "lean-stand-in.zip")
        built = cli("images", "build", "lean", "--toolchain", str(archive), home=images, timeout=600)
        assert built.returncode == 0, built.stderr
    tasks = [task for task in cli("list-tasks").stdout.split()
             if every or task in SOME]  # fmt: skip
    assert len(tasks) == (168 if every else len(SOME))
    config = write_config(tmp_path, tasks=tasks, trainers=["NoOp", "PrioritySearch"], max_workers=2)
    done = cli("validate", "--config", str(config), "--json", "--no-build", home=images)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert [task["id"] for task in document["tasks"] if task["ok"]] == tasks
    for task in document["tasks"]:
        fixed = task["id"] == "internal:non_trainable"
        assert any(p["trainable"] for p in task["parameters"]) is not fixed
        assert task["examples"]["train"] > 0 and "test" in task["examples"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.slow
def test_the_shipped_config_is_valid_strictly(images: Path, tmp_path: Path) -> None:
    config = REPOSITORY / "configs" / "m1_validation.yaml"
    arguments = ["--bench", "internal+trace_examples", "--strict", "--runs-dir", str(tmp_path / "runs")]
    done = cli("validate", "--config", str(config), *arguments, home=images)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("OK task ") for line in lines) == 7
    planned = [line for line in lines if re.match(r"run +[0-9a-f]{12} ", line)]
    assert len(planned) == 7 and "7 jobs: 7 to run" in lines
    (manifest,) = (tmp_path / "runs").glob("*/meta/manifest.json")
    assert len(json.loads(manifest.read_text())["jobs"]) == 7


def test_a_task_that_does_not_build_and_one_that_cannot_be_trained(images: Path, tmp_path: Path) -> None:
    root = write_task(tmp_path, "broken", "def build(context):\n    raise RuntimeError(f'uid {os.getuid() >= 1000}')")
    tasks = ["internal:broken", "internal:non_trainable", "internal:numeric_param"]
    config = write_config(tmp_path, tasks=tasks, trainers=["NoOp"])
    done = cli("validate", "--config", str(config), "--strict", "--root", str(root), home=images)
    assert done.returncode == 1, done.stderr
    _, broken, fixed, fine = done.stdout.splitlines()[:4]
    assert broken.startswith("FAIL task internal:broken: task: task_build: ") and "uid True" in broken
    assert fixed.startswith("FAIL task internal:non_trainable: task: no_trainable_parameters: ")
    assert fine.startswith("OK task internal:numeric_param  (1 parameter, ")


def test_bench_needs_no_image_of_other_suites(engine: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["llm4ad:circle_packing", "internal:numeric_param"], trainers=["NoOp"])
    for suites, family in (("internal", "core"), ("llm4ad", "llm4ad"), ("llm4ad,internal", "llm4ad")):
        done = cli("validate", "--config", str(config), "--bench", suites, "--no-build", home=tmp_path / "home")
        assert done.returncode == 3, done.stdout
        assert f"the image of family {family} was not built here" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.fixture
def building(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """The home, and the arguments of a validation that would go on for ever."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what it is killed with is left there
    root = write_task(tmp_path, "slow", "def build(context):\n    time.sleep(3600)")
    config = write_config(tmp_path, tasks=["internal:slow"], trainers=["NoOp"], score_timeout=None)
    return images, ["validate", "--config", str(config), "--root", str(root)]


def job_of(home: Path, arguments: list[str]) -> str:
    done = cli("run", *arguments[1:], "--dry-run", "--json", home=home)
    return str(json.loads(done.stdout)["jobs"][0]["job_id"])


@pytest.mark.slow
def test_ctrl_c_removes_the_sandbox(building: tuple[Path, list[str]], tmp_path: Path) -> None:
    home, arguments = building
    job = job_of(home, arguments)
    process = start(*arguments, home=home)
    wait_for(lambda: [c for c in containers(job) if c["State"] == "running"])
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, err
    assert containers(job) == []


@pytest.mark.slow
def test_clean_finds_what_a_killed_validation_left_and_run_does_not_adopt_it(
    building: tuple[Path, list[str]], tmp_path: Path
) -> None:
    home, arguments = building
    job = job_of(home, arguments)
    process = start(*arguments, home=home)
    (container,) = wait_for(lambda: [c for c in containers(job) if c["State"] == "running"])
    process.kill()
    process.communicate(timeout=30)
    plan = json.loads(cli("run", *arguments[1:], "--dry-run", "--json", home=home).stdout)
    assert [planned["decision"] for planned in plan["jobs"]] == ["run"]
    label = container["Labels"]["trace-bench.run"]
    assert label != plan["run_id"]
    done = cli("clean", "--run", label, home=home, cwd=tmp_path)
    assert done.returncode == 0 and "removed" in done.stdout, done.stderr
    assert containers(job) == []
