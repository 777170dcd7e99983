"""Jobs, isolation and attacks under gVisor: ``sandbox: {runtime: runsc}``.

Where the engine of these tests has no such runtime, scripts/second-engine starts one that has, if this machine has it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import assert_refused
from tests.integration.cli import REPOSITORY, cli, environment, result_of, write_config
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.runtimes import NOT_UNDER_GVISOR

pytestmark = pytest.mark.docker
SCRIPTS = REPOSITORY / "scripts"


def runtimes(engine: str | None) -> list[str]:
    found: list[str] = DockerBackend(engine).describe()["runtimes"]
    return found


@pytest.fixture(scope="module")
def gvisor(engine: str) -> Iterator[str | None]:
    """``DOCKER_HOST`` of an engine with runsc; None is the one that these tests run on anyway."""
    if "runsc" in runtimes(None):
        yield None
        return
    script = str(SCRIPTS / "second-engine")
    found = subprocess.run([SCRIPTS / "runsc-config"], capture_output=True, text=True, timeout=120)
    if found.returncode == 3:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    ours = subprocess.run([script, "status"], capture_output=True).returncode != 0
    done = subprocess.run([script, "start"], capture_output=True, text=True, timeout=600)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    address = f"unix://{os.environ.get('TRACE_BENCH_ENGINE26_RUN', '/run/trace-bench-engine26')}/docker.sock"
    if "runsc" not in runtimes(address):
        pytest.skip("the second engine runs already, and was started without runsc; scripts/second-engine stop")
    yield address
    if ours:
        subprocess.run([script, "stop"], check=True, capture_output=True)


@pytest.fixture(scope="module")
def where(gvisor: str | None, home: Path) -> dict[str, str]:
    """Environment of a command on that engine, with a home of its own for the lock of its images."""
    folder = home if gvisor is None else home.with_name(f"{home.name}-newer")
    return {"TRACE_BENCH_TEST_HOME": str(folder), **({} if gvisor is None else {"DOCKER_HOST": gvisor})}


@pytest.mark.slow
def test_scores_are_those_of_runc_and_the_record_says_what_held(where: dict[str, str], tmp_path: Path) -> None:
    home, env = Path(where["TRACE_BENCH_TEST_HOME"]), {k: v for k, v in where.items() if k == "DOCKER_HOST"}
    built = cli("images", "build", "core", "llm4ad", home=home, timeout=900, **env)
    assert built.returncode == 0, built.stderr
    smoke = (REPOSITORY / "configs" / "smoke.yaml").read_text()
    runs: dict[str, dict[str, Any]] = {}
    for runtime in ("runc", "runsc"):
        path = tmp_path / f"{runtime}.yaml"
        path.write_text(f"{smoke}\nsandbox: {{runtime: {runtime}}}\n")
        done = cli("run", "--config", str(path), "--json", "--runs-dir", str(tmp_path / runtime), home=home, **env)
        assert done.returncode == 0, done.stderr
        runs[runtime] = result_of(done.stdout)
    same = ("job_id", "status", "score_initial", "score_best", "score_final", "total_tokens", "integrity")
    for one, other in zip(runs["runc"]["jobs"], runs["runsc"]["jobs"], strict=True):
        assert [one[key] for key in same] == [other[key] for key in same] and one["status"] == "ok"

    folder = Path(runs["runsc"]["folder"])
    for row in runs["runsc"]["jobs"]:
        meta = json.loads((folder / "jobs" / row["job_id"] / "job_meta.json").read_text())
        controls = {control["name"]: control for control in meta["controls"]}
        assert {name for name in controls if not controls[name]["in_force"]} <= NOT_UNDER_GVISOR.keys()
        assert (controls["runtime"]["in_force"], controls["runtime"]["detail"]) == (True, "runsc")
    (described,) = [
        text
        for text in json.loads((folder / "meta" / "env.json").read_text())["backend"]["runtime_details"]
        if text.startswith("runsc ")
    ]
    assert re.fullmatch(r"runsc \S+ \(\S*runsc --platform=\w+ --network=none\)", described), described
    doctor = cli("doctor", home=home, **env)
    assert described in doctor.stdout


def under_runsc(where: dict[str, str], *arguments: str) -> None:
    env = environment(None, **where, TRACE_BENCH_RUNTIME="runsc", TRACE_BENCH_REQUIRE="docker")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "failed" not in done.stdout and " passed" in done.stdout


@pytest.mark.slow
def test_the_backend_does_what_every_backend_must(where: dict[str, str]) -> None:
    under_runsc(where, "tests/sandbox/test_conformance.py", "-k", "test_docker")


@pytest.mark.slow
def test_isolation_holds(where: dict[str, str]) -> None:
    under_runsc(where, "tests/integration/test_isolation.py")


ATTACKS = (
    *("report_nan_state", "report_train_end", "superscript_length", "headless_daemon", "deep_tree"),
    *("c_headless", "c_killer", "c_collisions", "c_memory", "c_bomb"),
)
"""Of each kind one: forged reports, the relay, processes and files that stay, stolen uids, memory, processes."""


@pytest.mark.slow
def test_attacks_hurt_nobody_else(where: dict[str, str]) -> None:
    siege = REPOSITORY / "tests" / "integration" / "test_siege.py"
    assert [attack for attack in ATTACKS if f'"{attack}"' not in siege.read_text()] == []
    names = " or ".join(f"{attack}-" for attack in ATTACKS)
    under_runsc(where, str(siege), "-m", "docker", "-k", names)  # also those that are slow


FORGERIES = (
    *("patch_numpy", "patch_by_frames", "two_answers", "write_results", "read_the_task", "call_the_relay"),
    *("daemon", "os_exit"),
)
"""Of each kind one that wants a score: patches, frames of its own, files, the network, processes, exits."""


@pytest.mark.slow
def test_no_score_can_be_forged(where: dict[str, str]) -> None:
    """Not among them: `read_other_processes`, which reads the environment of others there (it holds no secret), and
    bombs, which may end the whole sandbox there, as its own failure."""
    suite = REPOSITORY / "tests" / "adversarial"
    sources = "".join(path.read_text() for path in (suite / "attacks").glob("*.py"))
    assert [name for name in FORGERIES if f'"{name}"' not in sources] == []
    names = " or ".join(f"{name}-" for name in FORGERIES)
    under_runsc(where, str(suite / "test_scores.py"), "-m", "docker", "-k", names)


def test_an_engine_without_the_runtime_is_told_before_anything_is_made(images: Path, tmp_path: Path) -> None:
    path = write_config(
        tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"runtime": "no-such-runtime"}
    )
    for command in ("run", "validate"):
        done = cli(command, "--config", str(path), home=images)
        assert_refused(done, 3)
        assert "has no runtime 'no-such-runtime' (it has " in done.stderr and "stronger-runtime.md" in done.stderr
    assert not (tmp_path / "runs").exists()
