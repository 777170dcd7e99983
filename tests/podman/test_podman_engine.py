"""A Podman of scripts/podman-engine in the place of the Docker engine: the same tests, and the same scores."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import BASE_IMAGE
from tests.integration.cli import REPOSITORY, cli, environment, result_of
from tests.integration.conftest import engine, home, images

__all__ = ["engine", "home", "images"]
pytestmark = [pytest.mark.docker, pytest.mark.slow]
SCRIPT = REPOSITORY / "scripts" / "podman-engine"
OTHERWISE = (
    "adopts",  # a sandbox whose controller has died is not taken over: Podman has closed its input
    "not_ours and out_of_memory",  # Podman does not say that the memory limit killed the supervisor itself
    "labels_and_the_limits",  # its report calls the runtime oci
    "no_environment_variable and (train or score) and not candidate",  # it adds TERM and container
)
"""What is otherwise on Podman, as docs/how-to/engines.md says: tests of Docker that do not hold."""
CONTROLS_OTHERWISE = (
    "seccomp and (add_key or keyctl or unshare)",  # Podman's profile lets them be called
    "log_cap",  # its driver is another, of one file
)
"""The same, of single facts about controls."""


LACKS = {"memory", "swap", "cpus", "pids", "disk", "nofile", "core"}
"""Controls that a rootless Podman 4.3 on cgroup v1 cannot put in force."""
Engine = tuple[dict[str, str], Path]
"""Variables with which an engine is used, and a home whose images it has."""


@pytest.fixture(scope="module")
def podman(images: Path) -> Iterator[Engine]:
    yield from started(images)


@pytest.fixture(scope="module")
def rootless(images: Path) -> Iterator[Engine]:
    yield from started(images, "--rootless")


def started(images: Path, *options: str) -> Iterator[Engine]:
    was_up = subprocess.run([SCRIPT, "status", *options], capture_output=True, check=False).returncode == 0
    done = subprocess.run([SCRIPT, "start", *options], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    lock = json.loads((images / "images.lock.json").read_text())
    refs = [BASE_IMAGE, *(lock["images"][family]["ref"] for family in ("core", "llm4ad"))]
    suffix = "".join(options).removeprefix("-")
    env = {"DOCKER_HOST": f"unix:///run/trace-bench-podman{suffix}/podman.sock"}
    with subprocess.Popen(["docker", "save", *refs], stdout=subprocess.PIPE) as save:
        subprocess.run(["docker", "load", "-q"], stdin=save.stdout, env={**os.environ, **env}, check=True)
    folder = images.with_name(f"{images.name}-podman{suffix}")
    folder.mkdir(exist_ok=True)
    shutil.copy(images / "images.lock.json", folder)
    yield env, folder
    if not was_up:
        subprocess.run([SCRIPT, "stop", "--purge", *options], check=True)


def passed(podman: Engine, *arguments: str) -> None:
    env, folder = podman
    wanted = environment(None, **env, TRACE_BENCH_TEST_HOME=str(folder), TRACE_BENCH_REQUIRE="docker")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "docker and not slow", *arguments]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=wanted, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout


def test_the_backend_does_what_every_backend_must(podman: Engine) -> None:
    passed(podman, "tests/sandbox/test_conformance.py", "-k", "test_docker")


def test_every_control_holds_inside_and_outside_and_a_run_without_it_is_refused(podman: Engine) -> None:
    wanted = " and ".join(f"not ({words})" for words in CONTROLS_OTHERWISE)
    passed(podman, "tests/integration/test_controls.py", "-k", wanted)


def test_jobs_are_isolated_and_fail_as_they_do_on_docker(podman: Engine) -> None:
    files = [f"tests/integration/test_{name}.py" for name in ("isolation", "hostile", "interruption")]
    passed(podman, *files, "-k", " and ".join(f"not ({words})" for words in OTHERWISE))


def test_smoke_has_the_ids_and_scores_of_docker_and_nothing_is_left(
    podman: Engine, images: Path, tmp_path: Path
) -> None:
    same_as_docker(podman, images, tmp_path, "smoke.yaml", {"apparmor"})
    found = cli("doctor", "--json", home=podman[1], **podman[0])
    assert '"kind": "podman"' in found.stdout or "kind podman" in found.stdout


def test_without_root_smoke_is_the_same_where_the_controls_that_are_lacking_are_named(
    rootless: Engine, images: Path, tmp_path: Path
) -> None:
    env, folder = rootless
    found = cli("doctor", "--json", home=folder, **env)
    refused = json.loads(found.stdout)
    sandbox = next(check for check in refused if check["name"] == "sandbox")
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert found.returncode == 3
        assert set(re.findall(r"(\w+) \(", sandbox["detail"])) == LACKS
    config = tmp_path / "smoke.yaml"
    weaker = f"sandbox: {{allow_weaker: [{', '.join(sorted(LACKS))}]}}\n"
    config.write_text((REPOSITORY / "configs" / "smoke.yaml").read_text() + weaker)
    same_as_docker(rootless, images, tmp_path, str(config), {"apparmor", *LACKS})


def same_as_docker(engine: Engine, images: Path, tmp_path: Path, config: str, lacking: set[str]) -> None:
    env, folder = engine
    rows = []
    for name, place, variables in (("docker", images, {}), ("podman", folder, env)):
        done = cli("run", config, "--json", "--runs-dir", str(tmp_path / name), home=place, timeout=600, **variables)
        assert done.returncode == 0, done.stderr
        rows.append(result_of(done.stdout)["jobs"])
    same = ("job_id", "status", "score_initial", "score_best", "score_final", "total_tokens", "integrity")
    assert [[row[key] for key in same] for row in rows[0]] == [[row[key] for key in same] for row in rows[1]]
    for path in (tmp_path / "podman").glob("*/jobs/*/job_meta.json"):
        controls = json.loads(path.read_text())["controls"]
        assert {one["name"] for one in controls if not one["in_force"]} <= lacking
    for kind in ("ps -a", "volume ls"):
        left = subprocess.run(
            ["docker", *kind.split(), "-q"], env={**os.environ, **env}, capture_output=True, check=True
        )
        assert left.stdout.split() == [], kind
