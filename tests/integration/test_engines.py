"""Other engines, other bases, and images that come from a registry."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli, environment, result_of, run, write_config
from tests.integration.faults import ENGINE, Trial, door, finished, run_undisturbed
from tests.integration.test_faults import matrix
from tests.integration.test_interruption import wait_for

pytestmark = pytest.mark.docker
TASK = "internal:numeric_param"
SCRIPTS = REPOSITORY / "scripts"


def lock_of(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(result["folder"], "meta", "lock.json").read_text())
    return found


# -- a base that somebody names ---------------------------------------------------------------------------------------


@pytest.fixture
def given_base(images: Path) -> Iterator[str]:
    """An image that is not the one that families stand on otherwise; goes with all that was built on it."""
    (locked,) = json.loads((images / "images.lock.json").read_text())["bases"].values()
    name = f"trace-bench-test/given:{uuid.uuid4().hex[:12]}"
    recipe = f"FROM {locked['ref']}\nENV TRACE_BENCH_TEST={name}\n"
    subprocess.run(["docker", "build", "-q", "-t", name, "-"], input=recipe, text=True, check=True, capture_output=True)
    yield name
    ours = ["docker", "images", "--filter", f"since={name}", "--filter", "label=trace-bench.image-key"]
    made = subprocess.run([*ours, "--format", "{{.Repository}}:{{.Tag}}"], text=True, check=True, capture_output=True)
    for tag in made.stdout.split():
        show = ["docker", "image", "inspect", "-f", "{{json .Config.Env}}", tag]
        if name in subprocess.run(show, text=True, capture_output=True).stdout:
            subprocess.run(["docker", "rmi", tag], check=True, capture_output=True)
    subprocess.run(["docker", "rmi", name], check=True, capture_output=True)


@pytest.mark.slow
def test_families_stand_on_the_base_that_is_named(given_base: str, images: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    usual = json.loads(cli("images", "lock", home=images).stdout)["images"]["core"]
    built = cli("images", "build", "core", "--base", given_base, "--json", home=home, timeout=600)
    assert built.returncode == 0, built.stderr
    (pin,) = json.loads(built.stdout)
    assert pin["base"].startswith("layers:") and pin["key"] != usual["key"]
    assert [part for part in pin["parts"] if pin["parts"][part] != usual["parts"][part]] == ["base"]

    got = run(tmp_path, home, "--no-build", tasks=[TASK], trainers=["NoOp"], images={"base": given_base})
    assert got["code"] == 0 and lock_of(got)["images"]["core"]["base"] == pin["base"]
    again = run(tmp_path, home, "--no-build", tasks=[TASK], trainers=["NoOp"])
    assert again["code"] == 0 and again["jobs"][0]["image_key"] == pin["key"], (
        "the lock's base counts, if none is named"
    )


def test_another_base_than_the_locked_one_is_drift(given_base: str, images: Path, tmp_path: Path) -> None:
    config: dict[str, Any] = {"tasks": [TASK], "trainers": ["NoOp"], "images": {"base": given_base}}
    (tmp_path / "config.json").write_text(json.dumps({**config, "runs_dir": str(tmp_path / "runs")}))
    done = cli("run", "--config", str(tmp_path / "config.json"), home=images)
    assert done.returncode == 3 and "its base changed since" in done.stderr and "--accept-drift" in done.stderr
    assert not (tmp_path / "runs").exists()

    got = run(tmp_path, images, "--accept-drift", **config)
    manifest = json.loads(Path(got["folder"], "meta", "manifest.json").read_text())
    assert got["code"] == 0
    assert manifest["warnings"] == ["the image of core is used although its base changed since it was locked"]


@pytest.mark.slow
@pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock")
def test_ctrl_c_while_an_image_is_built_leaves_nothing_and_the_same_command_builds_it(
    given_base: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"], images={"base": given_base})
    trial = Trial(tmp_path, tmp_path / "home", config)
    with door() as way, way.held(b"/build?") as asked, trial.controller(DOCKER_HOST=way.url) as process:
        assert asked.wait(120)
        way.release()
        time.sleep(0.5)  # somewhere in the build; wherever that is
        process.send_signal(signal.SIGINT)
        trial.ended(process)
        assert process.returncode == 130
    assert not (tmp_path / "runs").exists()
    trial.finish()
    trial.stopped()


def test_a_base_that_nobody_has_is_named(tmp_path: Path) -> None:
    done = cli("images", "build", "core", "--base", "127.0.0.1:1/none:1", home=tmp_path / "home")
    assert done.returncode == 3 and "the base 127.0.0.1:1/none:1 is neither in the engine nor" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_base_without_python_is_refused_and_leaves_no_container(tmp_path: Path) -> None:
    name = f"trace-bench-test/empty:{uuid.uuid4().hex[:12]}"
    empty = subprocess.run(["docker", "build", "-q", "-t", name, "-"], input=b"FROM scratch\nLABEL a=b\n",
                           capture_output=True)  # fmt: skip
    assert empty.returncode == 0, empty.stderr
    try:
        done = cli("images", "build", "core", "--base", name, home=tmp_path / "home")
        assert done.returncode == 3 and f"the base {name} does not run python3" in done.stderr
        left = subprocess.run(["docker", "ps", "-aq", "--filter", f"ancestor={name}"], capture_output=True, check=True)
        assert left.stdout == b""
    finally:
        subprocess.run(["docker", "rmi", name], check=True, capture_output=True)


# -- a registry -------------------------------------------------------------------------------------------------------


@contextmanager
def loopback_registry(state: Path) -> Iterator[str]:
    if os.environ.get("DOCKER_HOST", "unix://").partition("://")[0] != "unix":
        pytest.skip("the engine is elsewhere and does not see this machine's loopback")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = environment(TRACE_BENCH_REGISTRY_PORT=str(port), TRACE_BENCH_REGISTRY_STATE=str(state))
    done = subprocess.run([SCRIPTS / "loopback-registry", "start"], env=env, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    try:
        yield f"127.0.0.1:{port}"
    finally:
        subprocess.run([SCRIPTS / "loopback-registry", "stop"], env=env, check=True, capture_output=True)


@pytest.mark.slow
def test_a_run_from_a_pushed_digest_pulls_what_the_engine_has_lost(images: Path, tmp_path: Path) -> None:
    home, config = tmp_path / "home", {"tasks": [TASK], "trainers": ["NoOp"]}
    built = json.loads(cli("images", "build", "core", "--json", home=home, timeout=600).stdout)[0]
    with loopback_registry(tmp_path / "registry") as registry:
        pushed = json.loads(cli("images", "push", "core", "--registry", registry, "--json", home=home).stdout)[0]
        assert pushed["ref"].startswith(f"{registry}/trace-bench/core@sha256:") and pushed["key"] == built["key"]

        def forget() -> None:
            for ref in (f"{registry}/trace-bench/core:{built['key'][:12]}", pushed["ref"]):
                subprocess.run(["docker", "rmi", "--no-prune", ref], capture_output=True)

        forget()
        refused = cli("run", "--config", "smoke.yaml", "--no-build", "--runs-dir", str(tmp_path / "none"), home=home)
        assert refused.returncode == 3 and "does not have" in refused.stderr and not (tmp_path / "none").exists()

        pulled = run(tmp_path, home, **config)
        assert pulled["code"] == 0 and f"pulling {pushed['ref']}" in pulled["stderr"]
        image = lock_of(pulled)["images"]["core"]
        assert (image["ref"], image["key"]) == (pushed["ref"], built["key"])

        quick = run(tmp_path, home, "--no-build", **config)
        assert quick["code"] == 0 and "pulling" not in quick["stderr"]
        assert quick["jobs"][0]["fingerprint"] == pulled["jobs"][0]["fingerprint"]
        forget()
    # The registry is gone, and the recipe is here: the same image under its own name.
    again = run(tmp_path, home, **config)
    assert again["code"] == 0, again["stderr"]
    assert lock_of(again)["images"]["core"]["ref"] == f"trace-bench/core:{built['key'][:12]}"
    assert again["jobs"][0]["fingerprint"] == pulled["jobs"][0]["fingerprint"]


def test_a_refused_push_leaves_no_tag(images: Path, engine: str) -> None:
    done = cli("images", "push", "core", "--registry", "127.0.0.1:1", home=images)
    assert done.returncode == 3 and "cannot push" in done.stderr and "Traceback" not in done.stderr
    tags = subprocess.run(["docker", "images", "-q", "127.0.0.1:1/trace-bench/core"], capture_output=True, text=True)
    assert tags.stdout == ""


# -- a newer engine ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def newer_engine() -> Iterator[str]:
    script = str(SCRIPTS / "second-engine")
    started = subprocess.run([script, "status"], capture_output=True).returncode != 0
    done = subprocess.run([script, "start"], capture_output=True, text=True, timeout=600)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    folder = os.environ.get("TRACE_BENCH_ENGINE26_RUN", "/run/trace-bench-engine26")
    yield f"unix://{folder}/docker.sock"
    if started:
        subprocess.run([script, "stop"], check=True, capture_output=True)


@pytest.mark.slow
def test_isolation_and_smoke_hold_on_a_newer_engine(newer_engine: str, home: Path) -> None:
    elsewhere = home.with_name(f"{home.name}-newer")
    tests = [f"tests/integration/{name}" for name in ("test_isolation.py", "test_jobs.py")]
    env = environment(
        None, DOCKER_HOST=newer_engine, TRACE_BENCH_TEST_HOME=str(elsewhere), TRACE_BENCH_REQUIRE="docker"
    )
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests],
                          cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=1200)  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert "failed" not in done.stdout and " passed" in done.stdout


@pytest.mark.slow
def test_two_engines_give_the_same_scores(newer_engine: str, images: Path, home: Path, tmp_path: Path) -> None:
    elsewhere = home.with_name(f"{home.name}-newer")
    built = cli("images", "build", "core", "llm4ad", home=elsewhere, timeout=900, DOCKER_HOST=newer_engine)
    assert built.returncode == 0, built.stderr
    runs = []
    for name, home_, env in (("old", images, {}), ("new", elsewhere, {"DOCKER_HOST": newer_engine})):
        done = cli("run", "--config", "smoke.yaml", "--json", "--runs-dir", str(tmp_path / name), home=home_, **env)
        assert done.returncode == 0, done.stderr
        runs.append(result_of(done.stdout)["jobs"])
    same = ("job_id", "score_initial", "score_best", "score_final", "total_tokens")
    for old, new in zip(*runs, strict=True):
        assert [old[key] for key in same] == [new[key] for key in same]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed", "still"])
def test_an_engine_that_ends_and_comes_back(newer_engine: str, home: Path, tmp_path: Path, how: str) -> None:
    """Stopped, it ends its containers, which cannot be removed before it is back. Killed, it finds them again. One that
    stands still for a while costs nothing."""
    elsewhere, script = home.with_name(f"{home.name}-newer"), str(SCRIPTS / "second-engine")
    built = cli("images", "build", "core", home=elsewhere, timeout=900, DOCKER_HOST=newer_engine)
    assert built.returncode == 0, built.stderr
    trial = Trial(tmp_path, elsewhere, matrix(tmp_path), engine=newer_engine)
    with trial.controller() as process:
        wait_for(lambda: len(finished(tmp_path)) >= 1)
        daemon = int(Path(newer_engine.removeprefix("unix://")).with_name("dockerd.pid").read_text())
        if how == "still":
            os.kill(daemon, signal.SIGSTOP)
            time.sleep(10)
            os.kill(daemon, signal.SIGCONT)
        elif how == "killed":
            os.kill(daemon, signal.SIGKILL)
            wait_for(lambda: not Path(f"/proc/{daemon}").exists())
        else:
            subprocess.run([script, "stop"], check=True, capture_output=True, timeout=120)
        assert process.poll() is None, process.communicate()[1]
        subprocess.run([script, "start"], check=True, capture_output=True, timeout=120)
        said = trial.ended(process, 240)
        assert process.returncode == 0, said
    twin = tmp_path / "twin"
    twin.mkdir()
    if how == "still":
        assert all(attempts == 1 for _, attempts in finished(tmp_path).values())
    trial.check(run_undisturbed(twin, elsewhere, matrix(twin), DOCKER_HOST=newer_engine))
